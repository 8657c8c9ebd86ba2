/**
 * Sort keys of strings, in the order of the runtime's root collation (ICU), which selectors use for
 * comparisons. `Intl` offers a comparer but no keys, so the weights are derived by comparing:
 *
 *   - Strings are normalized to NFC and processed character by character.
 *   - In scripts whose characters never combine into a new letter ("trusted"), all characters are
 *     sorted at the primary level (letters, without accents and case). Each class of equal
 *     characters gets a weight. An expansion (æ, ﬁ, ½) has the weights of its parts.
 *   - Hangul syllables are decomposed into letters. The only pair of characters in the trusted
 *     scripts that form one letter is l and the Catalan dot (ŀ).
 *   - Any other character (Thai, Indic scripts, rare ideographs, unassigned code points) has no
 *     weight of its own: it is encoded as a gap, the weight between those of its two neighbouring
 *     classes. The key then continues with the string itself, in code point order.
 *
 * At the primary level, keys therefore agree with the comparer up to and including the first gap.
 * Accents and case follow; for unusual combinations of accents, the order can differ from ICU's. A
 * range read is widened to the primary level (`index-key.ts`), and the selector is applied to each
 * document. Strings that compare as equal have the same key, unless the key contains a gap, or a
 * letter of the strings has several marks.
 */
import {
  append,
  assert,
  type Digests,
  utf8Decode,
  utf8Encode,
  type Yielder,
} from "../base/index.ts";

/** Characters of the scripts whose weights can be derived: they never combine into a new letter. */
const TRUSTED =
  /^[\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}\p{Script=Armenian}\p{Script=Georgian}\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Common}\p{Script=Inherited}\u1100-\u11ff\u4e00-\u9fff]$/u;
/**
 * Exclusive end of the code points with derived weights. The only characters of TRUSTED beyond it
 * are tags and variation selectors.
 */
const TRUSTED_END = 0x20000;
/** Highest character: U+FFFF has the highest weight in the root collation. */
const HIGHEST = "\uffff";

/**
 * Weight of the first class. The weights of successive classes differ by 2. The odd weights between
 * them are gaps, for characters without a weight of their own.
 */
const FIRST_WEIGHT = 0x0200;
/** First weight encoded in three bytes. */
const LONG_WEIGHT = 0xe000;
const LONG_WEIGHT_LEAD = 0xe8;
const COMMON = 2;
const RANK_MAX = 0x7f;
/** Case rank of expansions. It distinguishes an expansion from the sequence of its parts. */
const EXPANDED_RANK = RANK_MAX;

/** The weights of one character. */
interface Elements {
  readonly primary: readonly number[];
  /**
   * Whether the character has no weight of its own, and is encoded as a gap between two classes.
   * The key then continues with the whole string.
   */
  readonly isGap: boolean;
  readonly accents: readonly number[];
  readonly cases: readonly number[];
}

interface Ranks {
  readonly accent: number;
  readonly letterCase: number;
}

/** Weights of all characters, derived once by comparing the characters with each other. */
interface Weights {
  /** One character of each class, in sort order. */
  readonly classes: readonly string[];
  /** Rank of each character within its class. */
  readonly ranks: ReadonlyMap<string, Ranks>;
  /** Combining marks, in sort order. */
  readonly marks: readonly string[];
}

/**
 * Several marks on one letter. The comparer treats some sequences of marks as equal although their
 * keys differ.
 */
const STACKED_MARKS = /\p{M}\p{M}/u;

/**
 * Whether all strings that the comparer treats as equal to this string have the same key. Valid
 * only for a string whose characters all have weights.
 */
export function hasOneKey(text: string): boolean {
  return !STACKED_MARKS.test(text.normalize("NFD"));
}

export class Collation {
  /** Identifies the weights, which differ between versions of ICU. */
  readonly version: string;
  readonly #letters = baseComparer();
  readonly #weights: Weights;
  /** The number assigned to each combining mark that is not ignored. */
  readonly #marks: ReadonlyMap<string, number>;
  readonly #elements = new Map<number, Elements>();

  /**
   * Derives the weights by comparing all characters. Takes about 50 ms, and yields to the event
   * loop meanwhile.
   */
  static async derive(digests: Pick<Digests, "sha1Hex">, yielder: Yielder): Promise<Collation> {
    const weights = await deriveWeights(yielder);
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
   * Appends the key of a string: the primary level, terminated by 0, then the accent and case
   * levels, each terminated by 0. After a character without a weight, the key continues with the
   * string itself. Returns false if such a character was found. If a key is a prefix of another
   * key, the next byte of the longer key is FF. Stops at `lengthMax` bytes, with a small overshoot.
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
   * Appends the primary level without its terminator. Keys of all strings that are equal to `text`
   * at that level begin with it. Returns false if a character has no weight or the level exceeds
   * `lengthMax`: keys of other strings, both below and above `text`, can then begin with it, too.
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

  /**
   * Returns the classes whose characters, concatenated, equal `character`. If no classes do,
   * returns the classes that equal its beginning, followed by the gap between classes where its
   * rest sorts.
   */
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

async function deriveWeights(yielder: Yielder): Promise<Weights> {
  const comparer = baseComparer();
  const accents = accentComparer();
  const all = new Intl.Collator("und");
  const { letters, marks } = await trustedCharacters(comparer, yielder);
  letters.sort(comparer.compare);
  const classes: string[] = [];
  const ranks = new Map<string, Ranks>();
  let members: string[] = [];
  const rank = (): void => rankMembers(members, accents, all, ranks);
  for (const character of letters) {
    const last = classes.at(-1);
    if (last === undefined || comparer.compare(last + HIGHEST, character) < 0) {
      if (yielder.isDue) await yielder.yield();
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
  yielder: Yielder,
): Promise<{ letters: string[]; marks: string[] }> {
  const letters: string[] = [];
  const marks: string[] = [];
  for (let code = 0; code < TRUSTED_END; code++) {
    const character = String.fromCodePoint(code);
    if (!TRUSTED.test(character)) continue;
    if (yielder.isDue) await yielder.yield();
    if (comparer.compare(character, "") === 0) marks.push(character);
    else letters.push(character);
  }
  return { letters, marks };
}

/** Ranks the characters of a class by accents, then by case. */
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

/** Assigns numbers to the sorted marks; equal marks get the same number. */
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

/** Appends the weights, except `COMMON` ones at the end, which carry no information. */
function appendTrimmed(out: number[], weights: readonly number[]): void {
  let length = weights.length;
  while (length > 0 && weights[length - 1] === COMMON) length--;
  for (let index = 0; index < length; index++) out.push(weights[index] as number);
  out.push(0);
}

/** Appends a string in UTF-8 with a terminating 0. Zero bytes within it are escaped. */
export function appendText(out: number[], text: string): void {
  for (const byte of utf8Encode(text)) {
    out.push(byte);
    if (byte === 0) out.push(0xff);
  }
  out.push(0);
}

/**
 * Reads the key that begins at `start`. Returns the end of the key, and the string that the key
 * contains if it has a gap.
 */
export function readKey(
  bytes: Uint8Array,
  start: number,
): { readonly text: string | undefined; readonly end: number } {
  let at = start;
  for (;;) {
    const lead = bytes[at];
    if (lead === 0) {
      // Skip the accent and case levels, each terminated by 0.
      const end = bytes.indexOf(0, bytes.indexOf(0, at + 1) + 1) + 1;
      return { text: undefined, end };
    }
    at += lead === LONG_WEIGHT_LEAD ? 3 : 2;
    assert(at < bytes.length, "The key of a string must be complete");
    // An odd weight is a gap between classes; the string itself follows.
    if ((bytes[at - 1] as number) % 2 === 1) return readText(bytes, at);
  }
}

/** Reads a string written by `appendText`. Unpaired surrogates have become U+FFFD. */
export function readText(
  bytes: Uint8Array,
  start: number,
): { readonly text: string; readonly end: number } {
  const text: number[] = [];
  for (let at = start; ; ) {
    const byte = bytes[at++];
    assert(byte !== undefined, "An encoded string must have a terminator");
    if (byte !== 0) text.push(byte);
    else if (bytes[at] === 0xff) {
      text.push(0);
      at++;
    } else return { text: utf8Decode(Uint8Array.from(text)), end: at };
  }
}
