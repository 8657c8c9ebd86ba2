/**
 * Sort keys of texts, in the order of the runtime's root collation (ICU), which selectors compare by. `Intl` has comparers and no keys,
 * so the weights are found by comparing:
 *
 *   - Texts are taken in NFC, character by character.
 *   - The characters of scripts in which no two make a new letter are put in order at the primary level (letters, without accents and
 *     case). Each class of equal ones has a weight. A character that is several (æ, ﬁ, ½) has the weights of its parts.
 *   - Syllables of Hangul are their letters. An l with the dot of Catalan behind it is the letter ŀ: of the trusted scripts no other two
 *     characters are one.
 *   - Any other character (Thai, the scripts of India, rare ideographs, unassigned ones) has as its weight the gap between the classes that it
 *     lies in, and the key goes on with the text itself: the order among those is that of code points.
 *
 * So at the primary level keys never disagree with the comparer, up to such a character and with the gap itself. Behind the primary
 * level come accents and case; unusual mixtures of accents may be in another order than ICU's. A reader of a range widens it to the
 * primary level (`index-key.ts`) and applies the selector to each document. Texts that the comparer finds equal have the same key,
 * unless it contains a gap or several marks of one letter.
 */
import { append, assert, type Digests, type Turns, utf8Decode, utf8Encode } from "../base/index.ts";

const TRUSTED =
  /^[\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}\p{Script=Armenian}\p{Script=Georgian}\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Common}\p{Script=Inherited}\u1100-\u11ff\u4e00-\u9fff]$/u;
/** Trusted characters are below it; behind it are only tags and variation selectors. */
const TRUSTED_END = 0x20000;
/** U+FFFF has the highest weight of the root collation. */
const HIGHEST = "\uffff";

/** The first class has this weight, and the next ones every second number: the ones between are gaps. */
const FIRST_WEIGHT = 0x0200;
/** From here on a weight has three bytes. */
const LONG_WEIGHT = 0xe000;
const LONG_WEIGHT_LEAD = 0xe8;
const COMMON = 2;
const RANK_MAX = 0x7f;
/** An expansion is told from its parts by its case. */
const EXPANDED_RANK = RANK_MAX;

/** The weights of one character. */
interface Elements {
  readonly primary: readonly number[];
  /** It lies in a gap: what follows it is not weighed. */
  readonly isGap: boolean;
  readonly accents: readonly number[];
  readonly cases: readonly number[];
}

interface Ranks {
  readonly accent: number;
  readonly letterCase: number;
}

/** What is found once by comparing. */
interface Weights {
  /** One character of each class, in order. */
  readonly classes: readonly string[];
  /** Of each character of a class. */
  readonly ranks: ReadonlyMap<string, Ranks>;
  /** Characters that are no letters of their own, in order. */
  readonly marks: readonly string[];
}

/** Several marks of one letter. The comparer finds some orders of them equal that keys tell apart. */
const STACKED_MARKS = /\p{M}\p{M}/u;

/** Whether every text that the comparer finds equal to this one has its key, unless that has a gap. */
export function hasOneKey(text: string): boolean {
  return !STACKED_MARKS.test(text.normalize("NFD"));
}

export class Collation {
  /** Another one makes other keys: of another version of ICU. */
  readonly version: string;
  readonly #letters = baseComparer();
  readonly #weights: Weights;
  /** The numbers of the marks that are not ignored. */
  readonly #marks: ReadonlyMap<string, number>;
  readonly #elements = new Map<number, Elements>();

  /** Looks at all characters, which takes some 50 ms: others have their turns meanwhile. */
  static async derive(digests: Pick<Digests, "sha1Hex">, turns: Turns): Promise<Collation> {
    const weights = await deriveWeights(turns);
    const { classes, marks } = weights;
    const ranks = [...weights.ranks].map(
      ([text, each]) => `${text}${each.accent}.${each.letterCase}`,
    );
    const table = [...classes, "|", ...ranks, "|", ...marks].join("\0");
    return new Collation(digests.sha1Hex(utf8Encode(table)).slice(0, 16), weights);
  }

  private constructor(version: string, weights: Weights) {
    this.version = version;
    this.#weights = weights;
    this.#marks = numbersOf(weights.marks);
  }

  /**
   * Appends the key of a text: after the primary level, which ends with 0, the other levels, each with a 0 at its end; after a
   * gap, the text. Where a key begins another one, FF follows there. Stops when `out` has `lengthMax` bytes, and may go a little
   * beyond. Returns false if the key has a gap.
   */
  append(out: number[], text: string, lengthMax: number): boolean {
    let hasGap = false;
    const accents: number[] = [];
    const cases: number[] = [];
    this.#appendPrimary(out, text, lengthMax, (elements) => {
      hasGap ||= elements.isGap;
      for (const accent of elements.accents) accents.push(accent);
      for (const each of elements.cases) cases.push(each);
    });
    if (hasGap) appendText(out, text.slice(0, lengthMax));
    else if (out.length < lengthMax) {
      out.push(0);
      appendTrimmed(out, accents);
      appendTrimmed(out, cases);
    }
    return !hasGap;
  }

  /**
   * Appends the primary level without its end: the keys of all texts that are equal there begin so. Whether all of the text was weighed; if
   * not, keys that begin so may be of lower or higher texts.
   */
  appendPrimary(out: number[], text: string, lengthMax: number): boolean {
    return this.#appendPrimary(out, text, lengthMax, () => {}) && out.length < lengthMax;
  }

  #appendPrimary(
    out: number[],
    text: string,
    lengthMax: number,
    onElements: (elements: Elements) => void,
  ): boolean {
    const letters = text.normalize("NFC").replaceAll("l·", "ŀ").replaceAll("L·", "Ŀ");
    for (const character of letters) {
      const elements = this.#elementsOf(character);
      for (const byte of elements.primary) out.push(byte);
      onElements(elements);
      if (elements.isGap) return false;
      if (out.length >= lengthMax) return false;
    }
    return true;
  }

  #elementsOf(character: string): Elements {
    const code = character.codePointAt(0) as number;
    const known = this.#elements.get(code);
    if (known !== undefined) return known;
    const elements = this.#weigh(character, code);
    this.#elements.set(code, elements);
    return elements;
  }

  #weigh(character: string, code: number): Elements {
    if (code >= 0xac00 && code <= 0xd7a3) return this.#joined([...character.normalize("NFD")]);
    if (this.#letters.compare(character, "") === 0) {
      const number = this.#marks.get(character);
      if (number === undefined) return { primary: [], isGap: false, accents: [], cases: [] };
      const accents = [0x80 | (number >> 7), 1 + (number & 0x7f)];
      return { primary: [], isGap: false, accents, cases: [COMMON] };
    }
    const { primary, isGap, partCount } = this.#primaryOf(character);
    if (partCount > 1) {
      const cases = new Array<number>(partCount).fill(EXPANDED_RANK);
      return { primary, isGap, accents: new Array<number>(partCount).fill(COMMON), cases };
    }
    const [base, ...others] = [...character.normalize("NFD")];
    const ranks = this.#weights.ranks.get(base as string) ?? { accent: COMMON, letterCase: COMMON };
    const followers = others.map((other) => this.#elementsOf(other));
    return {
      primary,
      isGap,
      accents: [ranks.accent, ...followers.flatMap(({ accents }) => accents)],
      cases: [ranks.letterCase, ...followers.flatMap(({ cases }) => cases)],
    };
  }

  #joined(characters: readonly string[]): Elements {
    const parts = characters.map((each) => this.#elementsOf(each));
    return {
      primary: parts.flatMap(({ primary }) => primary),
      isGap: parts.some(({ isGap }) => isGap),
      accents: parts.flatMap(({ accents }) => accents),
      cases: parts.flatMap(({ cases }) => cases),
    };
  }

  /** The classes whose characters, one after the other, are equal to the character; or those, and the gap in which it goes on. */
  #primaryOf(character: string): { primary: number[]; isGap: boolean; partCount: number } {
    const primary: number[] = [];
    let parts = "";
    for (let partCount = 0; ; partCount++) {
      if (partCount > 0 && this.#letters.compare(parts, character) === 0) {
        return { primary, isGap: false, partCount };
      }
      const index = this.#lastClassNotAbove(parts, character);
      const longer = parts + (this.#weights.classes[index] ?? "");
      const isPart =
        index >= 0 &&
        (this.#letters.compare(longer, character) === 0 ||
          this.#letters.compare(longer + HIGHEST, character) > 0);
      if (!isPart) {
        append(primary, weight(FIRST_WEIGHT + 2 * index + 1));
        return { primary, isGap: true, partCount: partCount + 1 };
      }
      append(primary, weight(FIRST_WEIGHT + 2 * index));
      parts = longer;
    }
  }

  #lastClassNotAbove(parts: string, character: string): number {
    let low = -1;
    let high = this.#weights.classes.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      const order = this.#letters.compare(parts + this.#weights.classes[middle], character);
      if (order <= 0) low = middle;
      else high = middle;
    }
    return low;
  }
}

function baseComparer(): Intl.Collator {
  return new Intl.Collator("und", { sensitivity: "base" });
}

function accentComparer(): Intl.Collator {
  return new Intl.Collator("und", { sensitivity: "accent" });
}

async function deriveWeights(turns: Turns): Promise<Weights> {
  const comparer = baseComparer();
  const accents = accentComparer();
  const all = new Intl.Collator("und");
  const { letters, marks } = await trustedCharacters(comparer, turns);
  letters.sort(comparer.compare);
  const classes: string[] = [];
  const ranks = new Map<string, Ranks>();
  let members: string[] = [];
  const rank = (): void => rankMembers(members, accents, all, ranks);
  for (const character of letters) {
    const last = classes.at(-1);
    if (last === undefined || comparer.compare(last + HIGHEST, character) < 0) {
      if (turns.areDue) await turns.give();
      rank();
      members = [character];
      classes.push(character);
    } else if (comparer.compare(last, character) === 0) members.push(character);
  }
  rank();
  return { classes, ranks, marks: marks.sort(accents.compare) };
}

async function trustedCharacters(
  comparer: Intl.Collator,
  turns: Turns,
): Promise<{ letters: string[]; marks: string[] }> {
  const letters: string[] = [];
  const marks: string[] = [];
  for (let code = 0; code < TRUSTED_END; code++) {
    const character = String.fromCodePoint(code);
    if (!TRUSTED.test(character)) continue;
    if (turns.areDue) await turns.give();
    if (comparer.compare(character, "") === 0) marks.push(character);
    else letters.push(character);
  }
  return { letters, marks };
}

/** Ranks the characters of a class by their accents, and those of equal accents by their case. */
function rankMembers(
  members: string[],
  accents: Intl.Collator,
  all: Intl.Collator,
  ranks: Map<string, Ranks>,
): void {
  members.sort(all.compare);
  let [accent, letterCase] = [COMMON, COMMON];
  for (const [index, member] of members.entries()) {
    const last = members[index - 1];
    if (last !== undefined && accents.compare(last, member) !== 0) {
      [accent, letterCase] = [Math.min(RANK_MAX, accent + 1), COMMON];
    } else if (last !== undefined && all.compare(last, member) !== 0) {
      letterCase = Math.min(RANK_MAX, letterCase + 1);
    }
    ranks.set(member, { accent, letterCase });
  }
}

/** Of marks that are in order; equal ones have one number. */
function numbersOf(marks: readonly string[]): Map<string, number> {
  const accents = accentComparer();
  const numbers = new Map<string, number>();
  let number = 0;
  for (const [index, mark] of marks.entries()) {
    if (accents.compare(mark, "") === 0) continue;
    if (index > 0 && accents.compare(marks[index - 1] as string, mark) !== 0) number++;
    numbers.set(mark, number);
  }
  return numbers;
}

function weight(number: number): number[] {
  if (number < LONG_WEIGHT) return [number >> 8, number & 0xff];
  const rest = number - LONG_WEIGHT;
  return [LONG_WEIGHT_LEAD, rest >> 8, rest & 0xff];
}

/** Those at the end that are like any other say nothing. */
function appendTrimmed(out: number[], weights: readonly number[]): void {
  let length = weights.length;
  while (length > 0 && weights[length - 1] === COMMON) length--;
  for (let index = 0; index < length; index++) out.push(weights[index] as number);
  out.push(0);
}

/** Appends a text, with a 0 at its end. */
export function appendText(out: number[], text: string): void {
  for (const byte of utf8Encode(text)) {
    out.push(byte);
    if (byte === 0) out.push(0xff);
  }
  out.push(0);
}

/** The end of a whole key that begins at `start`, and its text if the key contains it. */
export function readKey(
  bytes: Uint8Array,
  start: number,
): { readonly text: string | undefined; readonly end: number } {
  let at = start;
  for (;;) {
    const lead = bytes[at];
    if (lead === 0) {
      // Accents and cases follow, each with a 0 at its end.
      const end = bytes.indexOf(0, bytes.indexOf(0, at + 1) + 1) + 1;
      return { text: undefined, end };
    }
    at += lead === LONG_WEIGHT_LEAD ? 3 : 2;
    assert(at < bytes.length, "The key of a text is whole");
    // The text follows a gap.
    if ((bytes[at - 1] as number) % 2 === 1) return readText(bytes, at);
  }
}

/** The text that `appendText` wrote at `start`. An unpaired surrogate has become U+FFFD. */
export function readText(
  bytes: Uint8Array,
  start: number,
): { readonly text: string; readonly end: number } {
  const text: number[] = [];
  for (let at = start; ; ) {
    const byte = bytes[at++];
    assert(byte !== undefined, "A text has an end");
    if (byte !== 0) text.push(byte);
    else if (bytes[at] === 0xff) {
      text.push(0);
      at++;
    } else return { text: utf8Decode(Uint8Array.from(text)), end: at };
  }
}
