/**
 * JSON values as bytes, in CouchDB's view order: null, false, true, numbers, strings, arrays,
 * objects. Each value is a tag followed by its content. An upper bound that is a prefix of entries
 * in the range ends with FF, which is above every tag and above the first byte of every id.
 *
 *   null 10   false 20   true 21
 *   number 30, the nearest double, the remainder
 *   string 40, its key (`collation.ts`)
 *   array 50, its elements, 00
 *   object 60, names and values alternating, 00
 *
 * Values that are equal in this order have the same bytes, except strings with several keys
 * (`collation.ts`). The original strings of an entry follow all of its values, because strings
 * cannot be read from their keys. A value is truncated to the maximum length for its index; values
 * that differ only in the truncated part have no defined order. If all values of an entry are
 * complete, they can be read from its bytes.
 */
import {
  append,
  assert,
  isJsonObject,
  type JsonText,
  joinObject,
  numberValue,
} from "../base/index.ts";
import { appendText, type Collation, hasOneKey, readKey, readText } from "./collation.ts";

const NULL = 0x10;
const FALSE = 0x20;
const TRUE = 0x21;
const NUMBER = 0x30;
const NUMBER_LENGTH = 8;
/** Marks a number whose double is exact. */
const NO_REST = 0x80;
const TEXT = 0x40;
const ARRAY = 0x50;
const OBJECT = 0x60;
const END = 0x00;
/**
 * Byte that, appended to a prefix, gives an upper bound of all keys with that prefix. Higher than
 * every tag, every weight and every byte of a string.
 */
const ABOVE = 0xff;
/** Byte that sorts above the terminator of a string's primary level, and below every weight. */
const ABOVE_EQUAL_TEXTS = 0x01;

/**
 * Maximum length of the values of an entry. The key also contains the document id, up to 7,000
 * bytes, and must not exceed 10,000.
 */
const ENTRY_BYTES_MAX = 2_000;

/** Range of the entries of an index, from `begin` (inclusive) to `end` (exclusive). */
export interface EntryRange {
  readonly begin: Uint8Array;
  readonly end: Uint8Array;
}

/**
 * Restriction of one field, in index order: a single value, or inclusive bounds, either of which
 * can be absent.
 */
export type FieldRange =
  | { readonly equal: unknown }
  | { readonly low?: { readonly value: unknown }; readonly high?: { readonly value: unknown } };

export class IndexKeys {
  readonly #collation: Collation;
  readonly #valueBytesMax: number;

  constructor(collation: Collation, fieldCount: number) {
    this.#collation = collation;
    this.#valueBytesMax = Math.floor(ENTRY_BYTES_MAX / fieldCount);
  }

  /**
   * Returns the bytes of an entry, which are its values in sequence, and whether all values are
   * complete.
   */
  entry(values: readonly unknown[]): { readonly bytes: Uint8Array; readonly isWhole: boolean } {
    const out: number[] = [];
    const texts: number[] = [];
    let isWhole = true;
    for (const value of values) isWhole = this.#append(out, value, texts).isWhole && isWhole;
    if (isWhole) append(out, texts);
    return { bytes: Uint8Array.from(out), isWhole };
  }

  /**
   * Returns a range that contains every entry whose values can lie in the ranges of the leading
   * fields. The range is wider than requested where keys are inexact.
   */
  range(ranges: readonly FieldRange[]): EntryRange {
    return { begin: this.#bound(ranges, "low"), end: this.#bound(ranges, "high") };
  }

  #bound(ranges: readonly FieldRange[], side: "low" | "high"): Uint8Array {
    const out: number[] = [];
    for (const range of ranges) {
      if ("equal" in range && !this.#append(out, range.equal).hasGap) continue;
      const bound = "equal" in range ? { value: range.equal } : range[side];
      if (bound === undefined) break;
      const start = out.length;
      const kind = this.#appendBound(out, bound.value, start + this.#valueBytesMax);
      out.length = Math.min(out.length, start + this.#valueBytesMax);
      if (kind === "exact") continue;
      if (side === "high") out.push(kind === "equal-texts" ? ABOVE_EQUAL_TEXTS : ABOVE);
      return Uint8Array.from(out);
    }
    if (side === "high") out.push(ABOVE);
    return Uint8Array.from(out);
  }

  /**
   * Appends a value, truncated to its maximum length. With `texts` (for an entry), also collects
   * the strings of the value. Without `texts` (for a bound of a range), omits a value that can have
   * several byte forms in keys.
   */
  #append(
    out: number[],
    value: unknown,
    texts?: number[],
  ): { readonly isWhole: boolean; readonly hasGap: boolean } {
    const start = out.length;
    const lengthMax = start + this.#valueBytesMax;
    const textsBefore = texts?.length ?? 0;
    const hasGap = this.#appendValue(out, value, lengthMax, texts);
    if (hasGap && texts === undefined) {
      out.length = start;
      return { isWhole: false, hasGap };
    }
    // A value of exactly the maximum length also counts as truncated.
    const isWhole = out.length + (texts?.length ?? 0) - textsBefore < lengthMax;
    out.length = Math.min(out.length, lengthMax);
    return { isWhole, hasGap };
  }

  /**
   * Appends a value, up to about `lengthMax`. Returns true if the value contains a character
   * without a collation weight or, without `texts`, if equal values can have different bytes.
   */
  #appendValue(out: number[], value: unknown, lengthMax: number, texts?: number[]): boolean {
    if (typeof value === "string") {
      out.push(TEXT);
      const hasGap = !this.#collation.append(out, value, lengthMax);
      if (!hasGap && texts !== undefined) appendText(texts, value.slice(0, lengthMax));
      return hasGap || (texts === undefined && !hasOneKey(value));
    }
    const isArray = Array.isArray(value);
    if (!isArray && !isJsonObject(value)) {
      appendScalar(out, value);
      return false;
    }
    out.push(isArray ? ARRAY : OBJECT);
    let hasGap = false;
    for (const part of isArray ? value : Object.entries(value).flat()) {
      if (out.length >= lengthMax) return hasGap;
      if (this.#appendValue(out, part, lengthMax, texts)) hasGap = true;
    }
    out.push(END);
    return hasGap;
  }

  /**
   * Appends the prefix of a bound, and returns which values have that prefix. "exact": only this
   * value. "equal-texts": all strings that are equal to it at the primary level. "open": values on
   * both sides of the bound.
   */
  #appendBound(out: number[], value: unknown, lengthMax: number): "exact" | "equal-texts" | "open" {
    if (typeof value === "string") {
      out.push(TEXT);
      return this.#collation.appendPrimary(out, value, lengthMax) ? "equal-texts" : "open";
    }
    const isArray = Array.isArray(value);
    if (!isArray && !isJsonObject(value)) {
      appendScalar(out, value);
      return out.length > lengthMax ? "open" : "exact";
    }
    out.push(isArray ? ARRAY : OBJECT);
    const parts: readonly unknown[] = isArray ? value : Object.entries(value).flat();
    for (const part of parts) {
      if (out.length >= lengthMax) return "open";
      if (this.#appendBound(out, part, lengthMax) !== "exact") return "open";
    }
    out.push(END);
    return out.length > lengthMax ? "open" : "exact";
  }
}

const numberView = new DataView(new ArrayBuffer(NUMBER_LENGTH));

function appendScalar(out: number[], value: unknown): void {
  if (value === null || typeof value === "boolean") {
    out.push(value === null ? NULL : value ? TRUE : FALSE);
    return;
  }
  out.push(NUMBER);
  // 0 and -0 are the same number. Negative numbers have all bits flipped, so that bytes sort like
  // numbers.
  const number = numberValue(value) as number | bigint;
  const double = nearestDouble(number);
  numberView.setFloat64(0, double + 0);
  const isNegative = numberView.getUint8(0) >= 0x80;
  for (let at = 0; at < NUMBER_LENGTH; at++) {
    const byte = numberView.getUint8(at);
    if (isNegative) out.push(byte ^ 0xff);
    else out.push(at === 0 ? byte | 0x80 : byte);
  }
  if (typeof number === "bigint") appendRest(out, number - BigInt(double));
  else out.push(NO_REST);
}

function nearestDouble(number: number | bigint): number {
  const double = Number(number);
  return Number.isFinite(double) ? double : Math.sign(double) * Number.MAX_VALUE;
}

/**
 * Maximum length of the stored difference between an integer and its double. Two integers whose
 * stored differences are equal up to this length have no defined order.
 */
const REST_BYTES_MAX = 120;

/**
 * Appends the difference between an integer and the nearest double: first a byte for sign and
 * number of digits, which sorts like the difference, then the digits in base 256.
 */
function appendRest(out: number[], rest: bigint): void {
  const flip = rest < 0n ? 0xff : 0;
  const hex = (rest < 0n ? -rest : rest).toString(16);
  const digits = hex.padStart(hex.length + (hex.length % 2), "0");
  const length = Math.min(digits.length / 2, REST_BYTES_MAX);
  out.push(NO_REST + (rest < 0n ? -length : length));
  for (let at = 0; at < length; at++) {
    out.push(Number.parseInt(digits.slice(2 * at, 2 * at + 2), 16) ^ flip);
  }
}

/** Returns the values of a complete entry, as `JSON.stringify` writes them. */
export function readValues(bytes: Uint8Array, count: number): JsonText[] {
  const skipped = new ValueReader(bytes, bytes.length);
  for (let index = 0; index < count; index++) skipped.skip();
  const reader = new ValueReader(bytes, skipped.at);
  return Array.from({ length: count }, () => reader.next());
}

class ValueReader {
  readonly #bytes: Uint8Array;
  #at = 0;
  /** Position of the next original string. These strings are stored after all values. */
  #textAt: number;

  constructor(bytes: Uint8Array, textAt: number) {
    this.#bytes = bytes;
    this.#textAt = textAt;
  }

  get at(): number {
    return this.#at;
  }

  skip(): void {
    const tag = this.#bytes[this.#at++];
    if (tag === NUMBER) this.#at += NUMBER_LENGTH + 1;
    else if (tag === TEXT) this.#at = readKey(this.#bytes, this.#at).end;
    else if (tag === ARRAY || tag === OBJECT) this.#untilEnd(() => this.skip());
  }

  next(): JsonText {
    const tag = this.#bytes[this.#at++];
    switch (tag) {
      case NULL:
        return "null";
      case FALSE:
        return "false";
      case TRUE:
        return "true";
      case NUMBER:
        return String(this.#number());
      case TEXT:
        return JSON.stringify(this.#text());
      case ARRAY:
        return `[${this.#untilEnd(() => this.next()).join()}]`;
      default: {
        assert(tag === OBJECT, "A value must begin with a tag");
        const members = this.#untilEnd(() => {
          assert(this.#bytes[this.#at++] === TEXT, "The name of a member must be a string");
          return { name: this.#text(), value: this.next() };
        });
        return joinObject(members);
      }
    }
  }

  #untilEnd<T>(read: () => T): T[] {
    const items: T[] = [];
    while (this.#bytes[this.#at] !== END) items.push(read());
    this.#at++;
    return items;
  }

  #number(): number {
    const isNegative = (this.#bytes[this.#at] as number) < 0x80;
    for (let at = 0; at < NUMBER_LENGTH; at++) {
      const byte = this.#bytes[this.#at++] as number;
      if (isNegative) numberView.setUint8(at, byte ^ 0xff);
      else numberView.setUint8(at, at === 0 ? byte & 0x7f : byte);
    }
    assert(this.#bytes[this.#at++] === NO_REST, "A number in a complete entry must be a double");
    return numberView.getFloat64(0);
  }

  #text(): string {
    const key = readKey(this.#bytes, this.#at);
    this.#at = key.end;
    if (key.text !== undefined) return key.text;
    const { text, end } = readText(this.#bytes, this.#textAt);
    this.#textAt = end;
    return text;
  }
}
