/**
 * JSON values as bytes, in CouchDB's view order: null, false, true, numbers, texts, arrays, objects. Each value is a tag and what follows
 * from it. Where the bytes of a value begin those of another one, FF follows there, which is above every tag and all that an id begins with.
 *
 *   null 10   false 20   true 21   number 30, 8 bytes   text 40, its key (`collation.ts`)
 *   array 50, its elements, 00   object 60, its names and values by turns, 00
 *
 * A value has at most as many bytes as its index gives it, and is cut off there: of two that differ behind it none is first. The
 * values of an entry that has all of them whole are read from its bytes.
 */
import { assert, type JsonText, joinObject } from "../base/index.ts";
import { type Collation, readText } from "./collation.ts";

const NULL = 0x10;
const FALSE = 0x20;
const TRUE = 0x21;
const NUMBER = 0x30;
const NUMBER_LENGTH = 8;
const TEXT = 0x40;
const ARRAY = 0x50;
const OBJECT = 0x60;
const END = 0x00;
/** Between what begins with some bytes and what is higher: above every tag, every weight and every byte of a text. */
const ABOVE = 0xff;
/** Above the end of the primary level of a text, and below every weight. */
const ABOVE_EQUAL_TEXTS = 0x01;

/** Of all fields of an entry: its key also holds the document's id, of up to 7,000 bytes, and has 10,000 at most. */
const ENTRY_BYTES_MAX = 2_000;

/** Behind so many values of an array or an object, in the order of its text, none is in an entry: each takes a byte. */
export const ENTRY_VALUES_MAX = ENTRY_BYTES_MAX;

/** From `begin`, inclusive, to `end`, exclusive, below the entries of an index. */
export interface EntryRange {
  readonly begin: Uint8Array;
  readonly end: Uint8Array;
}

/** What is known of one field, in the order of the index: one value, or bounds that may be open. Bounds are inclusive. */
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

  /** The bytes of an entry: its values, one after the other. Whether none of them is cut off. */
  entry(values: readonly unknown[]): { readonly bytes: Uint8Array; readonly isWhole: boolean } {
    const out: number[] = [];
    let isWhole = true;
    for (const value of values) isWhole = this.#append(out, value) && isWhole;
    return { bytes: Uint8Array.from(out), isWhole };
  }

  /** Every entry whose values may be in the ranges of the first fields lies in it. Wider than asked where keys are not exact. */
  range(ranges: readonly FieldRange[]): EntryRange {
    return { begin: this.#bound(ranges, "low"), end: this.#bound(ranges, "high") };
  }

  #bound(ranges: readonly FieldRange[], side: "low" | "high"): Uint8Array {
    const out: number[] = [];
    for (const range of ranges) {
      if ("equal" in range) {
        this.#append(out, range.equal);
        continue;
      }
      const bound = range[side];
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

  /** All of a value, but not more than it may have. Whether it is all; false also where it just fits. */
  #append(out: number[], value: unknown): boolean {
    const lengthMax = out.length + this.#valueBytesMax;
    this.#appendValue(out, value, lengthMax);
    const isWhole = out.length < lengthMax;
    out.length = Math.min(out.length, lengthMax);
    return isWhole;
  }

  #appendValue(out: number[], value: unknown, lengthMax: number): void {
    if (typeof value === "string") {
      out.push(TEXT);
      this.#collation.append(out, value, lengthMax);
    } else if (Array.isArray(value)) {
      out.push(ARRAY);
      for (const item of value) {
        if (out.length >= lengthMax) return;
        this.#appendValue(out, item, lengthMax);
      }
      out.push(END);
    } else if (typeof value === "object" && value !== null) {
      out.push(OBJECT);
      for (const [name, item] of Object.entries(value)) {
        if (out.length >= lengthMax) return;
        this.#appendValue(out, name, lengthMax);
        this.#appendValue(out, item, lengthMax);
      }
      out.push(END);
    } else appendScalar(out, value);
  }

  /**
   * The beginning of a bound. "exact": that of the value alone. "equal-texts": that of all texts which are equal at the primary level.
   * "open": that of values which may be on either side of the bound.
   */
  #appendBound(out: number[], value: unknown, lengthMax: number): "exact" | "equal-texts" | "open" {
    if (typeof value === "string") {
      out.push(TEXT);
      return this.#collation.appendPrimary(out, value, lengthMax) ? "equal-texts" : "open";
    }
    if (typeof value !== "object" || value === null) {
      appendScalar(out, value);
      return out.length > lengthMax ? "open" : "exact";
    }
    out.push(Array.isArray(value) ? ARRAY : OBJECT);
    const parts = Array.isArray(value) ? value : Object.entries(value).flat();
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
  // 0 and -0 are the same number. A negative one has all bits flipped, so that a higher one has higher bytes.
  numberView.setFloat64(0, (value as number) + 0);
  const isNegative = numberView.getUint8(0) >= 0x80;
  for (let at = 0; at < NUMBER_LENGTH; at++) {
    const byte = numberView.getUint8(at);
    if (isNegative) out.push(byte ^ 0xff);
    else out.push(at === 0 ? byte | 0x80 : byte);
  }
}

/** The values of a whole entry, as `JSON.stringify` writes them. */
export function readValues(bytes: Uint8Array, count: number): JsonText[] {
  const reader = new ValueReader(bytes);
  return Array.from({ length: count }, () => reader.next());
}

class ValueReader {
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
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
        assert(tag === OBJECT, "A value begins with its tag");
        const members = this.#untilEnd(() => {
          assert(this.#bytes[this.#at++] === TEXT, "The name of a member is a text");
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
    return numberView.getFloat64(0);
  }

  #text(): string {
    const { text, end } = readText(this.#bytes, this.#at);
    this.#at = end;
    return text;
  }
}
