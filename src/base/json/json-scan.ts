/**
 * A single-pass scanner for JSON in UTF-8 (RFC 8259, RFC 3629). Validates the text as `JSON.parse`
 * does, and records where values begin and end down to a given depth, without building objects.
 */

import { utf8Encode, utf8Slice } from "../bytes.ts";
import {
  BACKSLASH,
  LONG_STRING,
  NAME_END,
  NAME_START,
  NEXT,
  ROW_LENGTH,
  stringText,
  VALUE_END,
  VALUE_START,
} from "./json-rows.ts";
import { areFew, NameSearch, NO_ROW, repeatedAmongFew } from "./repeated-names.ts";

export interface ScanOptions {
  /** Maximum nesting depth of values that get rows. */
  readonly depthMax: number;
  /** Whether to search for duplicate names within an object, at any depth. */
  readonly findsRepeats: boolean;
  /** Maximum nesting depth. */
  readonly nestingMax: number;
  /** Maximum number of values at all depths. */
  readonly valueCountMax: number;
  /** Maximum number of rows, which bounds memory. Unlimited by default. */
  readonly rowCountMax?: number;
  /**
   * Whether to reject texts that `JSON.parse` accepts but other parsers do not: unpaired surrogate
   * escapes, and numbers beyond the range of a double.
   */
  readonly isPortable: boolean;
  /** Whether a scan pauses only between values, never within a long string. */
  readonly keepsStrings?: boolean;
}

/** Options without limits, for a text that is known to be valid or need not be limited. */
export const UNLIMITED: ScanOptions = {
  depthMax: Number.POSITIVE_INFINITY,
  findsRepeats: false,
  nestingMax: Number.POSITIVE_INFINITY,
  valueCountMax: Number.POSITIVE_INFINITY,
  isPortable: false,
};

/** The text exceeds a limit of the reader, although it might be valid JSON. */
export class JsonLimitError extends Error {
  override readonly name = "JsonLimitError";
  readonly limit: keyof typeof LIMITS;

  constructor(limit: JsonLimitError["limit"], max: number) {
    super(LIMITS[limit](max));
    this.limit = limit;
  }
}

const LIMITS = {
  nesting: (max: number) => `The JSON is nested more than ${max} levels deep`,
  values: (max: number) => `The JSON has more than ${max} values`,
  bytes: (max: number) => `A value in the JSON has more than ${max} bytes`,
};

/** Result of a complete scan. */
export interface ScannedJson {
  readonly isWhole: true;
  /**
   * Rows of the values in text order, followed by unused rows. The NEXT of the first row is the
   * index of the first unused row.
   */
  readonly rows: Int32Array;
  readonly repeated: RepeatedName | undefined;
}

/**
 * A duplicate name in an object. If several objects have duplicates, that of the object that starts
 * first in the text.
 */
export interface RepeatedName {
  readonly objectStart: number;
  readonly name: string;
}

/** State of a paused scan. Opaque; modified when the scan resumes. */
export interface ScanPause {
  readonly isWhole: false;
  readonly rows: Int32Array<ArrayBuffer>;
  readonly rowsEnd: number;
  readonly open: Int32Array<ArrayBuffer>;
  readonly depth: number;
  readonly isMember: boolean;
  readonly at: number;
  readonly valueCount: number;
  /** Row of the value within whose string the scan paused; NO_VALUE if it paused before a value. */
  readonly row: number;
  /**
   * Set while the names of a finished object are being compared; `row` is then the row of this
   * object.
   */
  readonly search: NameSearch | undefined;
  readonly repeated: RepeatedName | undefined;
}

/** Whether a scan with `keepsStrings` paused between values of the outermost array or object. */
export function isBetweenElements({ depth }: ScanPause): boolean {
  return depth === 1;
}

/** Resumes at an element of the outermost array, discarding the rows before it. */
export function fromElement(pause: ScanPause, at: number): ScanPause {
  return { ...pause, at, rowsEnd: ROW_LENGTH, depth: 1, isMember: false, row: NO_VALUE };
}

/**
 * Number of input bytes per row allocated initially. Each value needs a row. Most documents have
 * fewer values than one per `BYTES_PER_ROW`.
 */
const BYTES_PER_ROW = 64;
/**
 * Maximum number of rows allocated initially. For a long text, the number is extrapolated during
 * the scan.
 */
const ROWS_FIRST_MAX = 4_096;
const DEPTH_FIRST = 16;
/** Growth factor of the row array, relative to the extrapolated number of rows. */
const GROWTH_SLACK = 1.05;
/** Minimum growth factor of the row array, relative to its current number of rows. */
const GROWTH_MIN = 1.125;
/** Growth factor for rows that are needed only until their object ends. */
const BRIEF_GROWTH = 1.5;
/** Number of names compared between two pauses. Comparing them takes less than a millisecond. */
const PAUSE_NAMES = 1_000;
const NO_VALUE = -2;

const TAB = 0x09;
const LINE_FEED = 0x0a;
const RETURN = 0x0d;
const SPACE = 0x20;
const QUOTE = 0x22;
const PLUS = 0x2b;
const COMMA = 0x2c;
const MINUS = 0x2d;
const POINT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
const COLON = 0x3a;
const UPPER_E = 0x45;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const LOWER_E = 0x65;
const LETTER_U = 0x75;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

/**
 * Scans a whole text. Throws a SyntaxError if `bytes` is not valid JSON in UTF-8, or a
 * JsonLimitError if it exceeds a limit of `options`.
 */
export function scanJson(bytes: Uint8Array, options: ScanOptions): ScannedJson {
  return scanUntil(bytes, options, Number.POSITIVE_INFINITY) as ScannedJson;
}

/**
 * Like `scanJson`, but pauses soon after `stopAt`: before a value, within a long string, or while
 * comparing the many names of a finished object.
 */
export function scanUntil(
  bytes: Uint8Array,
  options: ScanOptions,
  stopAt: number,
  pause?: ScanPause,
): ScannedJson | ScanPause {
  const { depthMax, findsRepeats, nestingMax, valueCountMax, isPortable, keepsStrings } = options;
  const stringStopAt = keepsStrings === true ? Number.POSITIVE_INFINITY : stopAt;
  // One function with local variables, because this is the hottest loop of the program.
  let rows = pause?.rows ?? new Int32Array(ROW_LENGTH * roomAtFirst(bytes.length));
  let rowsEnd = pause?.rowsEnd ?? 0;
  /** Stack of open brackets, each as twice the index of its row, plus one for a brace. */
  let open = pause?.open ?? new Int32Array(DEPTH_FIRST);
  let depth = pause?.depth ?? 0;
  /** Whether the innermost open bracket is a brace. */
  let isMember = pause?.isMember ?? false;
  let at = pause?.at ?? skipSpace(bytes, 0);
  let valueCount = pause?.valueCount ?? 0;
  let row = pause?.row ?? NO_VALUE;
  let search = pause?.search;
  let repeated = pause?.repeated;
  for (;;) {
    if (search !== undefined) {
      search.advance(stopAt === Number.POSITIVE_INFINITY ? stopAt : PAUSE_NAMES);
      if (!search.isDone) break;
      repeated = firstRepeated(repeated, bytes, rows, row, search.repeated);
      search = undefined;
      if (depth > depthMax) {
        rowsEnd = isMember ? row + ROW_LENGTH : row;
        if (!isMember) row = NO_ROW;
      }
    } else if (row !== NO_VALUE) {
      at = stringEnd(bytes, at, isPortable, stringStopAt);
    } else {
      if (at >= stopAt) break;
      if (++valueCount > valueCountMax) throw new JsonLimitError("values", valueCountMax);
      // An element or a member starts here: `at` is its first byte.
      row = NO_ROW;
      if (depth <= depthMax || (findsRepeats && (isMember || bytes[at] === OPEN_BRACE))) {
        row = rowsEnd;
        rowsEnd += ROW_LENGTH;
        if (rowsEnd > rows.length) {
          const { rowCountMax = Number.POSITIVE_INFINITY } = options;
          if (rowsEnd > rowCountMax * ROW_LENGTH) throw new JsonLimitError("values", rowCountMax);
          const rowsMax = Math.min(bytes.length, rowCountMax);
          rows = withRoom(rows, at / bytes.length, rowsMax, depth > depthMax);
        }
      }
      if (isMember) {
        if (bytes[at] !== QUOTE) throw unexpected(bytes, at);
        const nameEnd = stringEnd(bytes, at + 1, isPortable);
        if (row !== NO_ROW) {
          rows[row + NAME_START] = at;
          rows[row + NAME_END] = nameEnd;
        }
        at = skipSpace(bytes, nameEnd);
        if (bytes[at] !== COLON) throw unexpected(bytes, at);
        at = skipSpace(bytes, at + 1);
      }
      if (row !== NO_ROW) rows[row + VALUE_START] = at;
      const first = bytes[at];
      if (first === OPEN_BRACE || first === OPEN_BRACKET) {
        const inside = skipSpace(bytes, at + 1);
        if (bytes[inside] !== first + 2) {
          isMember = first === OPEN_BRACE;
          if (depth >= nestingMax) throw new JsonLimitError("nesting", nestingMax);
          if (depth === open.length) open = doubled(open);
          open[depth++] = row * 2 + (isMember ? 1 : 0);
          at = inside;
          row = NO_VALUE;
          continue;
        }
        at = inside + 1;
      } else {
        at =
          first === QUOTE
            ? stringEnd(bytes, at + 1, isPortable, stringStopAt)
            : scalarEnd(bytes, at, isPortable);
      }
    }
    if (at < 0) {
      at = -at;
      break;
    }
    // Ends the value, and each container that ends after it.
    for (;;) {
      if (row !== NO_ROW) {
        rows[row + VALUE_END] = at;
        rows[row + NEXT] = rowsEnd;
      }
      at = skipSpace(bytes, at);
      if (depth === 0) {
        if (at !== bytes.length) throw unexpected(bytes, at);
        return { isWhole: true, rows, repeated };
      }
      const next = bytes[at];
      if (next === COMMA) {
        at = skipSpace(bytes, at + 1);
        row = NO_VALUE;
        break;
      }
      if (next !== (isMember ? CLOSE_BRACE : CLOSE_BRACKET)) throw unexpected(bytes, at);
      at++;
      depth--;
      const isObject = isMember;
      row = (open[depth] as number) >> 1;
      isMember = depth > 0 && ((open[depth - 1] as number) & 1) === 1;
      if (!(isObject && findsRepeats)) continue;
      // The object has ended. Check its names for duplicates.
      const first = row + ROW_LENGTH;
      if (!areFew(first, rowsEnd)) {
        search = new NameSearch(bytes, rows, first, rowsEnd);
        break;
      }
      const among = repeatedAmongFew(bytes, rows, first, rowsEnd);
      if (among !== NO_ROW) repeated = firstRepeated(repeated, bytes, rows, row, among);
      if (depth > depthMax) {
        // Rows kept only for comparing names are discarded when their object ends.
        rowsEnd = isMember ? first : row;
        if (!isMember) row = NO_ROW;
      }
    }
  }
  const place = { rows, rowsEnd, open, depth, isMember, at, valueCount, row };
  return { isWhole: false, ...place, search, repeated };
}

function roomAtFirst(byteCount: number): number {
  return Math.min(ROWS_FIRST_MAX, 2 + Math.ceil(byteCount / BYTES_PER_ROW));
}

/**
 * Returns the duplicate name whose object starts first: `known`, the one found so far, or the name
 * of `member` in `object`. `member` is NO_ROW if `object` has no duplicate.
 */
function firstRepeated(
  known: RepeatedName | undefined,
  bytes: Uint8Array,
  rows: Int32Array,
  object: number,
  member: number,
): RepeatedName | undefined {
  const objectStart = rows[object + VALUE_START] as number;
  if (member === NO_ROW || (known !== undefined && known.objectStart < objectStart)) return known;
  const nameStart = rows[member + NAME_START] as number;
  const name = stringText(bytes, nameStart, rows[member + NAME_END] as number);
  return { objectStart, name };
}

/** Table by byte value: 1 for ASCII characters that need no escape in a string, otherwise 0. */
const PLAIN = Uint8Array.from({ length: 256 }, (_, byte) => {
  return byte >= SPACE && byte < 0x80 && byte !== QUOTE && byte !== BACKSLASH ? 1 : 0;
});

/**
 * Returns the end of the string whose characters continue at `from`. If the scan reaches `stopAt`
 * first, returns the negated offset at which to resume.
 */
function stringEnd(
  bytes: Uint8Array,
  from: number,
  isPortable: boolean,
  stopAt = Number.POSITIVE_INFINITY,
): number {
  const end = Math.min(bytes.length, stopAt);
  let at = from;
  let wordsAt = from + LONG_STRING;
  while (at < end) {
    const byte = bytes[at] as number;
    if (PLAIN[byte] === 1) at++;
    else if (byte === QUOTE) return at + 1;
    else if (byte === BACKSLASH) at = escapeEnd(bytes, at, isPortable);
    else if (byte >= 0x80) at = characterEnd(bytes, at, byte);
    else throw unexpected(bytes, at);
    if (at >= wordsAt) {
      at = plainWordsEnd(bytes, at, end);
      wordsAt = at + LONG_STRING;
    }
  }
  if (at < bytes.length) return -at;
  throw unexpected(bytes, at);
}

/**
 * Skips plain characters, four at a time in aligned words. Returns a position at or after `from`,
 * with only plain characters in between.
 */
function plainWordsEnd(bytes: Uint8Array, from: number, end: number): number {
  const start = from + (-(bytes.byteOffset + from) & 3);
  for (let at = from; at < start; at++) if (PLAIN[bytes[at] as number] !== 1) return at;
  const wordCount = (end - start) >> 2;
  if (wordCount <= 0) return from;
  const words = new Int32Array(bytes.buffer, bytes.byteOffset + start, wordCount);
  let index = 0;
  while (index < wordCount && isPlainWord(words[index] as number)) index++;
  return start + index * 4;
}

/**
 * Whether all four bytes are `PLAIN`. For each word that contains other bytes, `notCharacters |
 * zeros` has the high bit of the lowest such byte, and possibly high bits of bytes above it.
 */
function isPlainWord(word: number): boolean {
  const quotes = word ^ QUOTES;
  const backslashes = word ^ BACKSLASHES;
  const notCharacters = (word - SPACES) | word;
  const zeros = ((quotes - ONES) & ~quotes) | ((backslashes - ONES) & ~backslashes);
  return ((notCharacters | zeros) & HIGHEST_BITS) === 0;
}

const ONES = 0x01010101;
const SPACES = SPACE * ONES;
const QUOTES = QUOTE * ONES;
const BACKSLASHES = BACKSLASH * ONES;
const HIGHEST_BITS = 0x80 * ONES;

/** Returns the end of the multi-byte character at `start`, whose first byte is `first`. */
function characterEnd(bytes: Uint8Array, start: number, first: number): number {
  const second = bytes[start + 1] ?? 0;
  if (first >= 0xc2 && first <= 0xdf && isContinuation(second)) return start + 2;
  if (first >= 0xe0 && first <= 0xef && isSecondOfThree(first, second)) {
    if (isContinuation(bytes[start + 2])) return start + 3;
  } else if (first >= 0xf0 && first <= 0xf4 && isSecondOfFour(first, second)) {
    if (isContinuation(bytes[start + 2]) && isContinuation(bytes[start + 3])) return start + 4;
  }
  throw new SyntaxError(`The JSON text is not valid UTF-8 at ${start}`);
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80;
}

/** Rejects overlong forms and surrogates. */
function isSecondOfThree(first: number, second: number): boolean {
  return second >= (first === 0xe0 ? 0xa0 : 0x80) && second <= (first === 0xed ? 0x9f : 0xbf);
}

/** Rejects overlong forms and values above U+10FFFF. */
function isSecondOfFour(first: number, second: number): boolean {
  return second >= (first === 0xf0 ? 0x90 : 0x80) && second <= (first === 0xf4 ? 0x8f : 0xbf);
}

/** Bytes that form a complete escape after a backslash. */
const SIMPLE_ESCAPES = new Set(utf8Encode('"\\/bfnrt'));

/**
 * Returns the end of the escape at `start`. With `isPortable`, a surrogate pair counts as one
 * escape.
 */
function escapeEnd(bytes: Uint8Array, start: number, isPortable: boolean): number {
  if (SIMPLE_ESCAPES.has(bytes[start + 1] as number)) return start + 2;
  const unit = codeUnit(bytes, start);
  if (!isPortable || unit < 0xd800 || unit > 0xdfff) return start + 6;
  const low = unit < 0xdc00 ? codeUnit(bytes, start + 6) : 0;
  if (low >= 0xdc00 && low <= 0xdfff) return start + 12;
  throw new SyntaxError(
    `The escape at position ${start} of the JSON text is an unpaired surrogate`,
  );
}

/** Decodes the four digits of a `\u` escape. */
function codeUnit(bytes: Uint8Array, start: number): number {
  const digits = String.fromCharCode(...bytes.subarray(start + 2, start + 6));
  const isEscape = bytes[start] === BACKSLASH && bytes[start + 1] === LETTER_U;
  if (!isEscape || !FOUR_HEX_DIGITS.test(digits)) throw unexpected(bytes, start);
  return Number.parseInt(digits, 16);
}

const FOUR_HEX_DIGITS = /^[0-9a-fA-F]{4}$/;

const WORDS = ["true", "false", "null"].map(utf8Encode);

/** Returns the end of a number, `true`, `false` or `null`. */
function scalarEnd(bytes: Uint8Array, start: number, isPortable: boolean): number {
  const first = bytes[start];
  if (first === MINUS || isDigit(first)) return numberEnd(bytes, start, isPortable);
  for (const word of WORDS) {
    if (standsAt(bytes, start, word)) return start + word.length;
  }
  throw unexpected(bytes, start);
}

function standsAt(bytes: Uint8Array, start: number, word: Uint8Array): boolean {
  for (let index = 0; index < word.length; index++) {
    if (bytes[start + index] !== word[index]) return false;
  }
  return true;
}

function numberEnd(bytes: Uint8Array, start: number, isPortable: boolean): number {
  let at = start;
  if (bytes[at] === MINUS) at++;
  at = bytes[at] === ZERO ? at + 1 : digitsEnd(bytes, at);
  if (bytes[at] === POINT) at = digitsEnd(bytes, at + 1);
  const fractionEnd = at;
  if (bytes[at] === LOWER_E || bytes[at] === UPPER_E) {
    const sign = bytes[at + 1];
    at = digitsEnd(bytes, sign === PLUS || sign === MINUS ? at + 2 : at + 1);
  }
  const mayBeTooLarge = at > fractionEnd || at - start > DOUBLE_DIGITS_MAX;
  if (isPortable && mayBeTooLarge && !isDouble(bytes, start, at)) {
    throw new SyntaxError(`The number at position ${start} of the JSON text is too large`);
  }
  return at;
}

/** Integer digits of the largest double. */
const DOUBLE_DIGITS_MAX = 309;

function isDouble(bytes: Uint8Array, start: number, end: number): boolean {
  return Number.isFinite(Number(utf8Slice(bytes, start, end)));
}

/** Returns the end of a sequence of digits. Throws if it is empty. */
function digitsEnd(bytes: Uint8Array, start: number): number {
  let at = start;
  while (isDigit(bytes[at])) at++;
  if (at === start) throw unexpected(bytes, at);
  return at;
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= ZERO && byte <= NINE;
}

function skipSpace(bytes: Uint8Array, start: number): number {
  let at = start;
  while (at < bytes.length) {
    const byte = bytes[at] as number;
    if (byte > SPACE) break;
    if (byte !== SPACE && byte !== LINE_FEED && byte !== RETURN && byte !== TAB) break;
    at++;
  }
  return at;
}

/**
 * Copies full rows into a larger array. Its size for the whole text is extrapolated from `share`,
 * the scanned part of the text. Growing step by step would copy more and leave more memory unused.
 * With `briefly`, the rows are temporary, so the size is not extrapolated.
 */
function withRoom(
  rows: Int32Array,
  share: number,
  rowsMax: number,
  briefly: boolean,
): Int32Array<ArrayBuffer> {
  const count = rows.length / ROW_LENGTH;
  const expected = Math.ceil(count * (briefly ? BRIEF_GROWTH : GROWTH_SLACK / share));
  // Every value has at least one byte, so the text's length limits the number of rows to `rowsMax`.
  const room = Math.max(Math.ceil(count * GROWTH_MIN), Math.min(expected, rowsMax)) + 1;
  const grown = new Int32Array(Math.min(room, rowsMax + 1) * ROW_LENGTH);
  grown.set(rows);
  return grown;
}

function doubled(numbers: Int32Array): Int32Array<ArrayBuffer> {
  const grown = new Int32Array(numbers.length * 2);
  grown.set(numbers);
  return grown;
}

function unexpected(bytes: Uint8Array, at: number): SyntaxError {
  if (at >= bytes.length) return new SyntaxError("The JSON text ends inside a value");
  const found = JSON.stringify(String.fromCharCode(bytes[at] as number));
  return new SyntaxError(`Unexpected ${found} at position ${at} of the JSON text`);
}
