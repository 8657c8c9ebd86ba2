/**
 * One pass over a JSON text: whether it is one, as `JSON.parse` would say, and where its values down to some depth begin and end.
 * No object is made for anything in it.
 */

/** A value is a row of numbers. The rows of what it holds follow, in order. */
export const ROW_LENGTH = 5;
/** Where the quotes of its name begin and end; nothing in an array, or for the whole. */
export const NAME_START = 0;
export const NAME_END = 1;
export const VALUE_START = 2;
export const VALUE_END = 3;
/** The index in the rows of what comes behind all that the value holds. */
export const NEXT = 4;

export interface ScanOptions {
  /** Values that so many brackets enclose, or fewer, have rows. */
  readonly depthMax: number;
  /** So do all objects and their members, however deep: for who looks for names. */
  readonly allNames: boolean;
  /** Whether an escape that is half of a character is an error; `JSON.parse` takes it. */
  readonly wholeCharacters: boolean;
}

const ROWS_FIRST = 64;
const DEPTH_FIRST = 16;
const NO_ROW = -1;

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
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

/** The rows, in the order of the text. Throws a SyntaxError when `text` is not JSON. */
export function scanJson(text: string, options: ScanOptions): Int32Array {
  const scanner = new Scanner(text, options);
  scanner.scan();
  return scanner.rows;
}

class Scanner {
  rows = new Int32Array(ROWS_FIRST * ROW_LENGTH);
  readonly #text: string;
  readonly #depthMax: number;
  readonly #allNames: boolean;
  readonly #wholeCharacters: boolean;
  /** Of each bracket that is open, twice where the row of its value is, and one more for a brace. */
  #open = new Int32Array(DEPTH_FIRST);
  #depth = 0;
  #rowsEnd = 0;
  /** The first backslash that has not been passed; none: behind the text. */
  #backslash: number;
  /** Whether strings have to be looked at for characters that JSON forbids in them. */
  readonly #hasControls: boolean;

  constructor(text: string, { depthMax, allNames, wholeCharacters }: ScanOptions) {
    this.#text = text;
    this.#depthMax = depthMax;
    this.#allNames = allNames;
    this.#wholeCharacters = wholeCharacters;
    this.#backslash = indexOr(text.indexOf("\\"), text.length);
    this.#hasControls = CONTROLS.test(text);
  }

  scan(): void {
    const text = this.#text;
    let at = skipSpace(text, 0);
    for (;;) {
      // A value begins here. Of an object, behind its name.
      const isMember = this.#depth > 0 && this.#isInObject();
      const row = this.#hasRow(isMember, text.charCodeAt(at)) ? this.#addRow() : NO_ROW;
      if (isMember) {
        if (text.charCodeAt(at) !== QUOTE) throw unexpected(text, at);
        const nameEnd = this.#stringEnd(at);
        if (row !== NO_ROW) {
          this.rows[row + NAME_START] = at;
          this.rows[row + NAME_END] = nameEnd;
        }
        at = skipSpace(text, nameEnd);
        if (text.charCodeAt(at) !== COLON) throw unexpected(text, at);
        at = skipSpace(text, at + 1);
      }
      if (row !== NO_ROW) this.rows[row + VALUE_START] = at;
      const code = text.charCodeAt(at);
      if (code === OPEN_BRACE || code === OPEN_BRACKET) {
        const inside = skipSpace(text, at + 1);
        if (text.charCodeAt(inside) !== code + 2) {
          this.#push(row, code === OPEN_BRACE);
          at = inside;
          continue;
        }
        at = inside + 1;
      } else {
        at = code === QUOTE ? this.#stringEnd(at) : scalarEnd(text, at, code);
      }
      this.#endValue(row, at);
      at = skipSpace(text, at);
      // And the values that end with it.
      for (;;) {
        if (this.#depth === 0) {
          if (at !== text.length) throw unexpected(text, at);
          return;
        }
        const next = text.charCodeAt(at);
        if (next === COMMA) {
          at = skipSpace(text, at + 1);
          break;
        }
        if (next !== (this.#isInObject() ? CLOSE_BRACE : CLOSE_BRACKET)) {
          throw unexpected(text, at);
        }
        at++;
        this.#depth--;
        this.#endValue((this.#open[this.#depth] as number) >> 1, at);
        at = skipSpace(text, at);
      }
    }
  }

  #isInObject(): boolean {
    return ((this.#open[this.#depth - 1] as number) & 1) === 1;
  }

  #push(row: number, isObject: boolean): void {
    if (this.#depth === this.#open.length) this.#open = doubled(this.#open);
    this.#open[this.#depth++] = row * 2 + (isObject ? 1 : 0);
  }

  /** `code` begins the value, or the name of a member. */
  #hasRow(isMember: boolean, code: number): boolean {
    if (this.#depth <= this.#depthMax) return true;
    return this.#allNames && (isMember || code === OPEN_BRACE);
  }

  #addRow(): number {
    const row = this.#rowsEnd;
    this.#rowsEnd += ROW_LENGTH;
    if (this.#rowsEnd > this.rows.length) this.rows = doubled(this.rows);
    return row;
  }

  #endValue(row: number, end: number): void {
    if (row === NO_ROW) return;
    this.rows[row + VALUE_END] = end;
    this.rows[row + NEXT] = this.#rowsEnd;
  }

  /** Behind the string that begins at `start`. */
  #stringEnd(start: number): number {
    const text = this.#text;
    let end = text.indexOf('"', start + 1);
    while (this.#backslash < end) {
      const behind = escapeEnd(text, this.#backslash, this.#wholeCharacters);
      this.#backslash = indexOr(text.indexOf("\\", behind), text.length);
      if (behind > end) end = text.indexOf('"', behind);
    }
    if (end < 0) throw new SyntaxError("The JSON text ends inside a string");
    if (this.#hasControls) {
      for (let at = start + 1; at < end; at++) {
        if (text.charCodeAt(at) < SPACE) throw unexpected(text, at);
      }
    }
    return end + 1;
  }
}

/** What stands before the space. */
const CONTROLS = /[^ -\uffff]/;
const FOUR_HEX_DIGITS = /^[0-9a-fA-F]{4}$/;
const SIMPLE_ESCAPES = new Set('"\\/bfnrt');

/** Behind the escape that begins at `start`, or behind both halves of a character. */
function escapeEnd(text: string, start: number, wholeCharacters: boolean): number {
  const letter = text[start + 1] ?? "";
  if (SIMPLE_ESCAPES.has(letter)) return start + 2;
  const unit = codeUnit(text, start);
  if (!wholeCharacters || unit < 0xd800 || unit > 0xdfff) return start + 6;
  const low = unit < 0xdc00 ? codeUnit(text, start + 6) : 0;
  if (low >= 0xdc00 && low <= 0xdfff) return start + 12;
  throw new SyntaxError(`The escape at ${start} of the JSON text is half of a character`);
}

function codeUnit(text: string, start: number): number {
  const digits = text.slice(start + 2, start + 6);
  if (!text.startsWith("\\u", start) || !FOUR_HEX_DIGITS.test(digits)) {
    throw unexpected(text, start);
  }
  return Number.parseInt(digits, 16);
}

/** Behind a number, `true`, `false` or `null`. */
function scalarEnd(text: string, start: number, code: number): number {
  if (code === MINUS || isDigit(code)) return numberEnd(text, start);
  for (const word of ["true", "false", "null"]) {
    if (text.startsWith(word, start)) return start + word.length;
  }
  throw unexpected(text, start);
}

function numberEnd(text: string, start: number): number {
  let at = start;
  if (text.charCodeAt(at) === MINUS) at++;
  at = text.charCodeAt(at) === ZERO ? at + 1 : digitsEnd(text, at);
  if (text.charCodeAt(at) === POINT) at = digitsEnd(text, at + 1);
  const code = text.charCodeAt(at);
  if (code === 0x65 || code === 0x45) {
    const sign = text.charCodeAt(at + 1);
    at = digitsEnd(text, sign === PLUS || sign === MINUS ? at + 2 : at + 1);
  }
  return at;
}

/** Behind one digit or more. */
function digitsEnd(text: string, start: number): number {
  let at = start;
  while (isDigit(text.charCodeAt(at))) at++;
  if (at === start) throw unexpected(text, at);
  return at;
}

function isDigit(code: number): boolean {
  return code >= ZERO && code <= NINE;
}

function skipSpace(text: string, start: number): number {
  let at = start;
  for (;;) {
    const code = text.charCodeAt(at);
    if (code !== SPACE && code !== LINE_FEED && code !== RETURN && code !== TAB) return at;
    at++;
  }
}

function doubled(numbers: Int32Array): Int32Array<ArrayBuffer> {
  const grown = new Int32Array(numbers.length * 2);
  grown.set(numbers);
  return grown;
}

function indexOr(index: number, missing: number): number {
  return index < 0 ? missing : index;
}

function unexpected(text: string, at: number): SyntaxError {
  if (at >= text.length) return new SyntaxError("The JSON text ends inside a value");
  return new SyntaxError(`Unexpected ${JSON.stringify(text[at])} at ${at} of the JSON text`);
}
