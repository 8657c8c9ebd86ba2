/**
 * Patterns for names of databases: `*` stands for any characters, or none, and is captured; everything else stands for itself. Matching
 * takes time in proportion to the name and the pattern: each piece between two stars is looked for once, behind the one before it.
 */

export class Glob {
  readonly text: string;
  readonly #pieces: readonly string[];

  constructor(text: string) {
    this.text = text;
    this.#pieces = text.split("*");
  }

  /** How many parts of a name it captures. */
  get captureCount(): number {
    return this.#pieces.length - 1;
  }

  /**
   * What each `*` stands for in the name, in their order; undefined when the name does not match. Each but the last stands for as little
   * as it can.
   */
  match(name: string): readonly string[] | undefined {
    const [first = "", ...others] = this.#pieces;
    const last = others.pop();
    if (last === undefined) return name === first ? [] : undefined;
    const end = name.length - last.length;
    if (!name.startsWith(first) || !name.endsWith(last)) return undefined;
    const captures: string[] = [];
    let from = first.length;
    for (const piece of others) {
      const at = name.indexOf(piece, from);
      if (at < 0 || at + piece.length > end) return undefined;
      captures.push(name.slice(from, at));
      from = at + piece.length;
    }
    if (from > end) return undefined;
    return [...captures, name.slice(from, end)];
  }

  /** Whether it matches everything that the other one does. */
  covers(other: Glob): boolean {
    // A star of the other one is a character that only a star here stands for.
    return this.match(other.text) !== undefined;
  }

  /** Whether there is a name that both match. */
  meets(other: Glob): boolean {
    const [left, right] = [this.text, other.text];
    // `reached[j]`: what is left of this one behind `i`, and of the other one behind `j`, can begin there.
    let reached = starsFrom(right, [true, ...Array.from(right, () => false)]);
    for (const character of left) {
      const next: boolean[] = [character === "*" && reached[0] === true];
      for (let j = 1; j <= right.length; j++) {
        const facing = right[j - 1];
        next[j] =
          character === "*"
            ? reached[j] === true || next[j - 1] === true
            : (facing === "*" && reached[j] === true) ||
              (facing === character && reached[j - 1] === true);
      }
      reached = starsFrom(right, next);
    }
    return reached[right.length] === true;
  }
}

/** A star may stand for nothing. */
function starsFrom(text: string, reached: boolean[]): boolean[] {
  for (let j = 1; j <= text.length; j++) {
    if (text[j - 1] === "*" && reached[j - 1] === true) reached[j] = true;
  }
  return reached;
}
