/**
 * One pass over a JSON text in UTF-8 (RFC 8259, RFC 3629). It tells whether the text is valid, as `JSON.parse` would
 * decide, and where its values begin and end, down to some depth. It makes no objects for the values.
 */

import { utf8Encode, utf8Slice } from "./bytes.ts";
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
  /** Values that so many brackets enclose, or fewer, have rows. */
  readonly depthMax: number;
  /** Whether names that stand twice in one object are looked for, however deep it is. */
  readonly findsRepeats: boolean;
  /** How many brackets may enclose a value. */
  readonly nestingMax: number;
  /** How many values there may be, at whatever depth. */
  readonly valueCountMax: number;
  /** Values that may have rows, which take memory. Absent: any number. */
  readonly rowCountMax?: number;
  /** Whether what only `JSON.parse` takes is an error: an escape that is half of a character, and a number that no double holds. */
  readonly isPortable: boolean;
  /** Whether a scan that stops on its way does so between values only, however long a string is. */
  readonly keepsStrings?: boolean;
}

/** For a text of which nothing but its values matters: it is known to be valid, or its reader bounds nothing. */
export const UNLIMITED: ScanOptions = {
  depthMax: Number.POSITIVE_INFINITY,
  findsRepeats: false,
  nestingMax: Number.POSITIVE_INFINITY,
  valueCountMax: Number.POSITIVE_INFINITY,
  isPortable: false,
};

/** A text that may well be JSON, and asks for more than its reader gives. */
export class JsonLimitError extends Error {
  override readonly name = "JsonLimitError";
  readonly limit: keyof typeof LIMITS;

  constructor(limit: JsonLimitError["limit"], max: number) {
    super(LIMITS[limit](max));
    this.limit = limit;
  }
}

const LIMITS = {
  nesting: (max: number) => `The JSON is nested more than ${max} deep`,
  values: (max: number) => `The JSON has more than ${max} values`,
  bytes: (max: number) => `A value of the JSON has more than ${max} bytes`,
};

/** A whole text that was looked through. */
export interface ScannedJson {
  readonly isWhole: true;
  /** In the order of the text; what lies behind the first one's NEXT means nothing. */
  readonly rows: Int32Array;
  readonly repeated: RepeatedName | undefined;
}

/** A name that stands twice in an object: of the object that begins first, the one that is repeated first. */
export interface RepeatedName {
  readonly objectStart: number;
  readonly name: string;
}

/** Where a scan stopped on its way. It is the scan's own. */
export interface ScanPause {
  readonly isWhole: false;
  readonly rows: Int32Array<ArrayBuffer>;
  readonly rowsEnd: number;
  readonly open: Int32Array<ArrayBuffer>;
  readonly depth: number;
  readonly isMember: boolean;
  readonly at: number;
  readonly valueCount: number;
  /** Inside a string, the row of its value; NO_VALUE before a value. */
  readonly row: number;
  /** Behind an object whose names are being compared; `row` is its own. */
  readonly search: NameSearch | undefined;
  readonly repeated: RepeatedName | undefined;
}

/** Whether the next thing is an element of the outermost array, or a member of the outermost object, in a scan that keeps strings whole. */
export function isBetweenElements({ depth }: ScanPause): boolean {
  return depth === 1;
}

/** Goes on at such a place, in a scan whose elements alone have rows, as though none stood before it. */
export function fromElement(pause: ScanPause, at: number): ScanPause {
  return { ...pause, at, rowsEnd: ROW_LENGTH, depth: 1, isMember: false, row: NO_VALUE };
}

/** Those that are open where the scan stopped, the outermost first. */
export function openBrackets({ open, depth }: ScanPause): ("[" | "{")[] {
  return Array.from(open.subarray(0, depth), (entry) => ((entry & 1) === 1 ? "{" : "["));
}

/** Most documents have fewer values than one in so many bytes, down to their members. */
const BYTES_PER_ROW = 64;
/** Of a long text it is seen on the way how many it has. */
const ROWS_FIRST_MAX = 4_096;
const DEPTH_FIRST = 16;
/** Of the rows that are expected for a text, and of those that are there. */
const GROWTH_SLACK = 1.05;
const GROWTH_MIN = 1.125;
/** Of rows that are kept only until their object ends. */
const BRIEF_GROWTH = 1.5;
/** Names that are compared between two pauses: less than a millisecond. */
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

/** Throws a SyntaxError when `bytes` are not JSON in UTF-8, and a JsonLimitError. */
export function scanJson(bytes: Uint8Array, options: ScanOptions): ScannedJson {
  return scanUntil(bytes, options, Number.POSITIVE_INFINITY) as ScannedJson;
}

/**
 * The same, up to where it can go on: the first value, or a place in a string, behind `stopAt`, or somewhere among the many names of an
 * object that has ended.
 */
export function scanUntil(
  bytes: Uint8Array,
  options: ScanOptions,
  stopAt: number,
  pause?: ScanPause,
): ScannedJson | ScanPause {
  const { depthMax, findsRepeats, nestingMax, valueCountMax, isPortable, keepsStrings } = options;
  const stringStopAt = keepsStrings === true ? Number.POSITIVE_INFINITY : stopAt;
  // All of it in one function and its own variables: nothing else is done so often.
  let rows = pause?.rows ?? new Int32Array(ROW_LENGTH * roomAtFirst(bytes.length));
  let rowsEnd = pause?.rowsEnd ?? 0;
  /** Of each bracket that is open, twice where the row of its value is, and one more for a brace. */
  let open = pause?.open ?? new Int32Array(DEPTH_FIRST);
  let depth = pause?.depth ?? 0;
  /** Of the last one. */
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
      // A value begins here. Of an object, behind its name.
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
    // It ends, and with it maybe those that it is in.
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
      // The names of its members are known.
      const first = row + ROW_LENGTH;
      if (!areFew(first, rowsEnd)) {
        search = new NameSearch(bytes, rows, first, rowsEnd);
        break;
      }
      const among = repeatedAmongFew(bytes, rows, first, rowsEnd);
      if (among !== NO_ROW) repeated = firstRepeated(repeated, bytes, rows, row, among);
      if (depth > depthMax) {
        // Nobody will ask for its members any more, nor for itself, but the object that has it for its name.
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

/** Of two objects in which a name is repeated, that of the one that begins first; `member` is NO_ROW where none is. */
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

/** By byte: whether it stands for itself in a string, and is a character. */
const PLAIN = Uint8Array.from({ length: 256 }, (_, byte) => {
  return byte >= SPACE && byte < 0x80 && byte !== QUOTE && byte !== BACKSLASH ? 1 : 0;
});

/**
 * Behind the string whose characters go on at `from`. When it has come to `stopAt` before, the negative of the place of the character
 * where to go on.
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

/** Behind the words of four plain bytes each that lie around `from`, or begin just behind it. */
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

/** Whether each of four bytes is `PLAIN`. The highest bit of a byte is set when it is none, at least in the lowest such byte. */
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

/** Behind the character of several bytes that begins at `start` with `first`. */
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

/** Neither a longer form than needed nor half of a surrogate pair. */
function isSecondOfThree(first: number, second: number): boolean {
  return second >= (first === 0xe0 ? 0xa0 : 0x80) && second <= (first === 0xed ? 0x9f : 0xbf);
}

/** Neither a longer form than needed nor beyond the last character. */
function isSecondOfFour(first: number, second: number): boolean {
  return second >= (first === 0xf0 ? 0x90 : 0x80) && second <= (first === 0xf4 ? 0x8f : 0xbf);
}

/** What may follow a backslash alone. */
const SIMPLE_ESCAPES = new Set(utf8Encode('"\\/bfnrt'));

/** Behind the escape that begins at `start`, or behind both halves of a character. */
function escapeEnd(bytes: Uint8Array, start: number, isPortable: boolean): number {
  if (SIMPLE_ESCAPES.has(bytes[start + 1] as number)) return start + 2;
  const unit = codeUnit(bytes, start);
  if (!isPortable || unit < 0xd800 || unit > 0xdfff) return start + 6;
  const low = unit < 0xdc00 ? codeUnit(bytes, start + 6) : 0;
  if (low >= 0xdc00 && low <= 0xdfff) return start + 12;
  throw new SyntaxError(`The escape at ${start} of the JSON text is half of a character`);
}

/** Of the four digits behind a backslash and a `u`. */
function codeUnit(bytes: Uint8Array, start: number): number {
  const digits = String.fromCharCode(...bytes.subarray(start + 2, start + 6));
  const isEscape = bytes[start] === BACKSLASH && bytes[start + 1] === LETTER_U;
  if (!isEscape || !FOUR_HEX_DIGITS.test(digits)) throw unexpected(bytes, start);
  return Number.parseInt(digits, 16);
}

const FOUR_HEX_DIGITS = /^[0-9a-fA-F]{4}$/;

const WORDS = ["true", "false", "null"].map(utf8Encode);

/** Behind a number, `true`, `false` or `null`. */
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
    throw new SyntaxError(`The number at ${start} of the JSON text is too large`);
  }
  return at;
}

/** Before the point of the largest double. */
const DOUBLE_DIGITS_MAX = 309;

function isDouble(bytes: Uint8Array, start: number, end: number): boolean {
  return Number.isFinite(Number(utf8Slice(bytes, start, end)));
}

/** Behind one digit or more. */
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
 * A copy of full rows with room for those of the whole text, if it continues as it began: `share` of it is scanned. Growing
 * step by step would copy more, and leave most of the memory empty. Rows that are kept only until their object ends say
 * nothing about the rest of the text.
 */
function withRoom(
  rows: Int32Array,
  share: number,
  rowsMax: number,
  briefly: boolean,
): Int32Array<ArrayBuffer> {
  const count = rows.length / ROW_LENGTH;
  const expected = Math.ceil(count * (briefly ? BRIEF_GROWTH : GROWTH_SLACK / share));
  // No value is shorter than a byte.
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
  return new SyntaxError(`Unexpected ${found} at ${at} of the JSON text`);
}
