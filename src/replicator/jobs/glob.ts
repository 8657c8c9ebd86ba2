/**
 * Patterns for database names: `*` matches any characters, possibly none, and captures them; other
 * characters match themselves. Matching takes linear time, because each piece between two stars is
 * searched for only once, after the previous piece.
 */

export class Glob {
  readonly text: string;
  readonly #pieces: readonly string[];

  constructor(text: string) {
    this.text = text;
    this.#pieces = text.split("*");
  }

  /** Text before the first star, with which all matching names begin. */
  get prefix(): string {
    return this.#pieces[0] as string;
  }

  /** Number of stars, each of which captures a string. */
  get captureCount(): number {
    return this.#pieces.length - 1;
  }

  /**
   * Returns the captures; undefined if the name does not match. Each capture but the last is as
   * short as possible.
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

  /** Whether this pattern matches every name that `other` matches. */
  covers(other: Glob): boolean {
    // Match the text of the other pattern like a name: a star in it can only be matched by a star
    // of this pattern.
    return this.match(other.text) !== undefined;
  }

  /** Whether some name matches both patterns. */
  meets(other: Glob): boolean {
    const [left, right] = [this.text, other.text];
    // `reached[j]`: whether any string matches both the part of the left pattern read so far, and
    // the first `j` characters of the right pattern.
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

/** Extends `reached` past stars in `text`: a star can match the empty string. */
function starsFrom(text: string, reached: boolean[]): boolean[] {
  for (let j = 1; j <= text.length; j++) {
    if (text[j - 1] === "*" && reached[j - 1] === true) reached[j] = true;
  }
  return reached;
}
