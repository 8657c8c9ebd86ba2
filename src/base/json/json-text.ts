/**
 * Handles JSON as the text received.
 *
 * `JSON.parse` and `JSON.stringify` change documents: `12345678901234567890` loses digits, `1.0`
 * becomes `1`, and a member named `__proto__` can vanish. Document bodies are therefore stored and
 * forwarded as text. The functions in this file split a text, or its UTF-8 encoding, into members
 * or elements without changing a byte of them.
 */
import { takeBytes } from "../byte-slab.ts";
import { concatBytes, utf8Encode, utf8Slice } from "../bytes.ts";
import type { Yielder } from "../yielder.ts";
import {
  BACKSLASH,
  hasEscapes,
  NAME_END,
  NAME_START,
  NEXT,
  ROW_LENGTH,
  stringText,
  VALUE_END,
  VALUE_START,
} from "./json-rows.ts";
import { type ScannedJson, type ScanOptions, scanJson, scanUntil, UNLIMITED } from "./json-scan.ts";

/** A JSON text, known to be valid. */
export type JsonText = string;

/** A member of an object: its decoded name, and its value as received. */
export interface JsonMember {
  readonly name: string;
  readonly value: JsonText;
}

/** A member whose value can be split further. */
export interface NamedValue {
  readonly name: string;
  readonly value: JsonValue;
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const OPEN_BRACKET = 0x5b;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

export type JsonKind = "object" | "array" | "string" | "number" | "boolean" | "null";

/** Returns the kind of value in a valid JSON text. */
export function jsonKind(text: JsonText): JsonKind {
  return kindFrom(text.charCodeAt(text.search(/\S/)));
}

/** Returns the kind of a value from the code of its first character. */
function kindFrom(code: number): JsonKind {
  if (code === OPEN_BRACE) return "object";
  if (code === OPEN_BRACKET) return "array";
  if (code === QUOTE) return "string";
  if (code === 0x74 || code === 0x66) return "boolean";
  if (code === 0x6e) return "null";
  return "number";
}

/**
 * Returns an object's members in order, including repeated names. Throws a SyntaxError for any
 * other text.
 */
export function splitObject(text: JsonText): JsonMember[] {
  return outlineJson(text, { depthMax: 1 }).members();
}

/** Returns the elements of an array in order. Throws a SyntaxError for any other text. */
export function splitArray(text: JsonText): JsonText[] {
  return outlineJson(text, { depthMax: 1 })
    .elements()
    .map((element) => element.text);
}

/**
 * Scans `json`, a string or UTF-8. Returns its value, which can be split into members or elements.
 * Throws a SyntaxError if `json` is invalid.
 */
export function outlineJson(
  json: string | Uint8Array,
  options: Partial<ScanOptions> = {},
): JsonValue {
  const bytes = typeof json === "string" ? utf8Encode(json) : json;
  return wholeValue(bytes, scanJson(bytes, { ...UNLIMITED, ...options }));
}

/**
 * Number of bytes scanned before yielding to the event loop. Scanning them takes a few
 * milliseconds.
 */
const TURN_BYTES = 262_144;

/** Like `outlineJson`, but yields to the event loop if the text is long. */
export async function outlineJsonYielding(
  bytes: Uint8Array,
  options: Partial<ScanOptions>,
  yielder: Yielder,
): Promise<JsonValue> {
  const all = { ...UNLIMITED, ...options };
  let stopAt = TURN_BYTES;
  let scanned = scanUntil(bytes, all, stopAt);
  while (!scanned.isWhole) {
    if (yielder.isDue) await yielder.yield();
    stopAt = scanned.at + TURN_BYTES;
    scanned = scanUntil(bytes, all, stopAt, scanned);
  }
  return wholeValue(bytes, scanned);
}

function wholeValue(bytes: Uint8Array, { rows, repeated }: ScannedJson): JsonValue {
  return new JsonValue(bytes, rows, 0, repeated?.name);
}

/**
 * A value in a scanned JSON text. It retains the whole text in UTF-8, and byte results share its
 * memory. Values nested deeper than the scan's `depthMax` cannot be extracted.
 */
export class JsonValue {
  /**
   * First duplicate name in the text, if the scan searched for duplicates. Undefined for a nested
   * value.
   */
  readonly repeatedName: string | undefined;
  readonly #whole: Uint8Array;
  readonly #rows: Int32Array;
  readonly #row: number;

  /** Internal constructor: call `outlineJson` instead. */
  constructor(whole: Uint8Array, rows: Int32Array, row: number, repeatedName?: string) {
    this.repeatedName = repeatedName;
    this.#whole = whole;
    this.#rows = rows;
    this.#row = row;
  }

  get text(): JsonText {
    return this.#valueText(this.#row);
  }

  get bytes(): Uint8Array {
    return this.#valueBytes(this.#row);
  }

  /** Length of the value in bytes. */
  get length(): number {
    return this.#at(VALUE_END) - this.#at(VALUE_START);
  }

  get kind(): JsonKind {
    return kindFrom(this.#whole[this.#at(VALUE_START)] as number);
  }

  get isObject(): boolean {
    return this.#whole[this.#at(VALUE_START)] === OPEN_BRACE;
  }

  get isArray(): boolean {
    return this.#whole[this.#at(VALUE_START)] === OPEN_BRACKET;
  }

  /** Whether nested values can be extracted: the scan was deep enough, or the value is empty. */
  get isOpen(): boolean {
    return this.#at(NEXT) > this.#row + ROW_LENGTH || this.length === EMPTY_LENGTH;
  }

  /** Number of members, including repeated names; 0 for any value other than an object. */
  get memberCount(): number {
    return this.isObject ? this.#innerCount() : 0;
  }

  /** Number of elements, or `undefined` for any value other than an array. */
  get elementCount(): number | undefined {
    return this.isArray ? this.#innerCount() : undefined;
  }

  /** Returns the elements in order. Throws a SyntaxError if the value is not an array. */
  elements(): JsonValue[] {
    if (!this.isArray) throw new SyntaxError("The JSON text is not an array");
    const rows = this.#rows;
    const end = this.#at(NEXT);
    // Allocates the exact length, because a growing array reserves capacity for 17 elements, while
    // most lists have one.
    const elements = new Array<JsonValue>(this.#innerCount());
    let index = 0;
    for (let row = this.#row + ROW_LENGTH; row < end; row = rows[row + NEXT] as number) {
      elements[index++] = new JsonValue(this.#whole, rows, row);
    }
    return elements;
  }

  /** Returns an element of an array, or undefined past the end. */
  element(index: number): JsonValue | undefined {
    const rows = this.#rows;
    const end = this.#at(NEXT);
    let left = index;
    for (let row = this.#row + ROW_LENGTH; row < end; row = rows[row + NEXT] as number) {
      if (left-- === 0) return new JsonValue(this.#whole, rows, row);
    }
    return undefined;
  }

  /**
   * Returns the members in order, including those with repeated names. Throws a SyntaxError if the
   * text is not an object.
   */
  members(): JsonMember[] {
    return this.values().map(({ name, value }) => ({ name, value: value.text }));
  }

  /** Like `members`, but with values that can be split further. */
  values(): NamedValue[] {
    return [...this.eachValue()];
  }

  /** Like `values`, but lazily, for objects with many members. */
  *eachValue(): Generator<NamedValue, void> {
    if (!this.isObject) throw new SyntaxError("The JSON text is not an object");
    const rows = this.#rows;
    const end = this.#at(NEXT);
    for (let row = this.#row + ROW_LENGTH; row < end; row = rows[row + NEXT] as number) {
      yield { name: this.#name(row), value: new JsonValue(this.#whole, rows, row) };
    }
  }

  /** Returns the last member with that name, as `JSON.parse` would, if it exists. */
  member(name: string): JsonValue | undefined {
    if (!this.isObject) return undefined;
    const rows = this.#rows;
    const end = this.#at(NEXT);
    let found = -1;
    for (let row = this.#row + ROW_LENGTH; row < end; row = rows[row + NEXT] as number) {
      if (this.#says(rows[row + NAME_START] as number, rows[row + NAME_END] as number, name)) {
        found = row;
      }
    }
    return found < 0 ? undefined : new JsonValue(this.#whole, rows, found);
  }

  /** The decoded string; undefined for a value that is not a string. */
  get string(): string | undefined {
    const start = this.#at(VALUE_START);
    return this.#whole[start] === QUOTE
      ? stringText(this.#whole, start, this.#at(VALUE_END))
      : undefined;
  }

  /** Whether the value is the string `text`. */
  isString(text: string): boolean {
    const start = this.#at(VALUE_START);
    return this.#whole[start] === QUOTE && this.#says(start, this.#at(VALUE_END), text);
  }

  /**
   * Passes the members whose names begin with `initial` (ASCII) to `take`, in order. Returns an
   * object of the remaining members in UTF-8: unchanged if no member was passed, otherwise in the
   * format of `joinObject`.
   */
  part(initial: string, take: (name: string, value: JsonValue) => void): Uint8Array {
    if (!this.isObject) throw new SyntaxError("The JSON text is not an object");
    const bytes = this.#whole;
    const rows = this.#rows;
    const initialCode = initial.charCodeAt(0);
    let isWhole = true;
    let kept: Uint8Array[] | undefined;
    // Range of consecutive members that are already separated only by commas, as `joinObject`
    // writes them. They are copied as one piece.
    let runStart = 0;
    let runEnd = -1;
    const end = this.#at(NEXT);
    for (let row = this.#row + ROW_LENGTH; row < end; row = rows[row + NEXT] as number) {
      const nameStart = rows[row + NAME_START] as number;
      const nameEnd = rows[row + NAME_END] as number;
      const valueStart = rows[row + VALUE_START] as number;
      const code = bytes[nameStart + 1];
      const isEscaped = code === BACKSLASH || hasEscapes(bytes, nameStart, nameEnd);
      const isTaken = isEscaped ? this.#name(row).startsWith(initial) : code === initialCode;
      if (isTaken) {
        isWhole = false;
        take(this.#name(row), new JsonValue(bytes, rows, row));
      } else if (isEscaped || valueStart > nameEnd + 1) {
        if (runEnd > 0) kept = withOne(kept, bytes.subarray(runStart, runEnd));
        runEnd = -1;
        const name = utf8Encode(`${JSON.stringify(this.#name(row))}:`);
        kept = withOne(kept, concatBytes([name, this.#valueBytes(row)]));
      } else {
        if (nameStart !== runEnd + 1) {
          if (runEnd > 0) kept = withOne(kept, bytes.subarray(runStart, runEnd));
          runStart = nameStart;
        }
        runEnd = rows[row + VALUE_END] as number;
      }
    }
    if (isWhole) return this.bytes;
    if (runEnd > 0) kept = withOne(kept, bytes.subarray(runStart, runEnd));
    return joinMembers(kept ?? []);
  }

  #innerCount(): number {
    const rows = this.#rows;
    const end = this.#at(NEXT);
    let count = 0;
    for (let row = this.#row + ROW_LENGTH; row < end; row = rows[row + NEXT] as number) count++;
    return count;
  }

  #at(column: number): number {
    return this.#rows[this.#row + column] as number;
  }

  #valueBytes(row: number): Uint8Array {
    return this.#whole.subarray(this.#rows[row + VALUE_START], this.#rows[row + VALUE_END]);
  }

  #valueText(row: number): JsonText {
    const rows = this.#rows;
    return utf8Slice(
      this.#whole,
      rows[row + VALUE_START] as number,
      rows[row + VALUE_END] as number,
    );
  }

  #name(row: number): string {
    const start = this.#rows[row + NAME_START] as number;
    return stringText(this.#whole, start, this.#rows[row + NAME_END] as number);
  }

  /** Whether the string from `start` to `end` decodes to `text`. */
  #says(start: number, end: number, text: string): boolean {
    const bytes = this.#whole;
    for (let index = 0; index < text.length; index++) {
      const code = text.charCodeAt(index);
      const byte = bytes[start + 1 + index] as number;
      // Bytes can be compared with code units only for ASCII.
      if (code >= 0x80 || byte === BACKSLASH) return stringText(bytes, start, end) === text;
      if (code !== byte) return false;
    }
    return end - start === text.length + 2;
  }
}

/** Length of an empty object or array without white space. */
const EMPTY_LENGTH = 2;

/** Appends an item. A new list has capacity for one item, which is usually enough. */
function withOne<Item>(list: Item[] | undefined, item: Item): Item[] {
  if (list === undefined) return [item];
  list.push(item);
  return list;
}

/** Builds an object's text from its members' texts, in order. */
function joinMembers(members: readonly Uint8Array[]): Uint8Array {
  let length = Math.max(members.length + 1, 2);
  for (const member of members) length += member.length;
  const joined = takeBytes(length);
  joined[0] = OPEN_BRACE;
  let end = 1;
  for (const member of members) {
    if (end > 1) joined[end++] = COMMA;
    joined.set(member, end);
    end += member.length;
  }
  joined[end] = CLOSE_BRACE;
  return joined;
}

/** Builds an object's text from its members, in order. */
export function joinObject(members: Iterable<JsonMember>): JsonText {
  let text = "{";
  for (const member of members) {
    if (text.length > 1) text += ",";
    text += memberText(member);
  }
  return `${text}}`;
}

function memberText({ name, value }: JsonMember): JsonText {
  return `${JSON.stringify(name)}:${value}`;
}
