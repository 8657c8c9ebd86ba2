/**
 * The tuple encoding of FoundationDB: packed tuples sort bytewise as the tuples do item by item,
 * and a tuple's bytes are a prefix of the bytes of every longer tuple that starts with its items.
 * Specification: FoundationDB's `design/tuple.md`.
 */
import {
  assert,
  cutBytes,
  EMPTY_BYTES,
  hexEncode,
  utf8Decode,
  utf8Encode,
  utf8Slice,
} from "../base/index.ts";
import { copyBytes } from "./key-bytes.ts";
import { PackBuffer } from "./pack-buffer.ts";
import { VERSIONSTAMP_BYTES, Versionstamp, type VersionstampedBytes } from "./versionstamp.ts";

/** A 64-bit float, packed as a float even if its value is an integer. */
export class Double {
  readonly value: number;

  constructor(value: number) {
    this.value = value;
  }
}

/** A 32-bit float. */
export class Float {
  readonly value: number;

  constructor(value: number) {
    this.value = Math.fround(value);
  }
}

/** 16 bytes, packed without escaping. */
export class Uuid {
  readonly bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    assert(bytes.length === 16, "A uuid must have 16 bytes");
    this.bytes = copyBytes(bytes);
  }

  toString(): string {
    return hexEncode(this.bytes);
  }
}

/** Safe integers are packed as integers, all other numbers as doubles. */
export type TupleItem =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | Versionstamp
  | Double
  | Float
  | Uuid
  | TupleItem[];

export type Tuple = readonly TupleItem[];

const NULL = 0x00;
const BYTES = 0x01;
const STRING = 0x02;
const NESTED = 0x05;
const NEGATIVE_BIG = 0x0b;
const ZERO = 0x14;
const POSITIVE_BIG = 0x1d;
const FLOAT = 0x20;
const DOUBLE = 0x21;
const FALSE = 0x26;
const TRUE = 0x27;
const UUID = 0x30;
const VERSIONSTAMP = 0x33;
const ESCAPE = 0xff;

/** Maximum length of an integer, because its length is encoded in one byte. */
const INTEGER_BYTES_MAX = 255;

/** Buffer shared by all calls that pack, because packing is synchronous. */
const packBuffer = new PackBuffer();
const numberBytes = new Uint8Array(8);
const numberView = new DataView(numberBytes.buffer);

/** Packs a tuple after the prefix. Its versionstamps must be complete. */
export function packTuple(tuple: Tuple, prefix: Uint8Array = EMPTY_BYTES): Uint8Array {
  packItems(tuple, prefix);
  assert(packBuffer.stampCount === 0, "The tuple must not contain an incomplete versionstamp");
  return cutBytes(packBuffer.bytes, 0, packBuffer.length);
}

/** Packs a tuple with exactly one incomplete versionstamp, which the commit completes. */
export function packTupleVersionstamped(
  tuple: Tuple,
  prefix: Uint8Array = EMPTY_BYTES,
): VersionstampedBytes {
  packItems(tuple, prefix);
  assert(packBuffer.stampCount === 1, "The tuple must contain exactly one incomplete versionstamp");
  return {
    bytes: cutBytes(packBuffer.bytes, 0, packBuffer.length),
    offset: packBuffer.stampOffset,
  };
}

/**
 * Unpacks the tuple that begins at `offset`. Integers become numbers if they are safe, otherwise
 * bigints.
 */
export function unpackTuple(bytes: Uint8Array, offset = 0): TupleItem[] {
  return new TupleReader(bytes, offset).readAll();
}

/** Unpacks only the string item at `offset`, for readers of many keys of one shape. */
export function unpackText(bytes: Uint8Array, offset: number): string {
  return new TupleReader(bytes, offset).readText();
}

/**
 * Packs into `packBuffer`. Loops here and below use an index, since an iterator would allocate an
 * object per item.
 */
function packItems(tuple: Tuple, prefix: Uint8Array): void {
  packBuffer.reset();
  packRaw(packBuffer, prefix);
  for (let index = 0; index < tuple.length; index++) {
    packItem(packBuffer, tuple[index] as TupleItem, false);
  }
}

function packItem(out: PackBuffer, item: TupleItem, nested: boolean): void {
  if (typeof item === "string") packString(out, item);
  else if (typeof item === "number") packNumber(out, item);
  else if (item instanceof Uint8Array) {
    out.push(BYTES);
    packEscaped(out, item);
  } else if (item === null) {
    out.push(NULL);
    if (nested) out.push(ESCAPE);
  } else if (typeof item === "boolean") out.push(item ? TRUE : FALSE);
  else if (typeof item === "bigint") packBigint(out, item);
  else if (Array.isArray(item)) {
    out.push(NESTED);
    for (const inner of item) packItem(out, inner, true);
    out.push(NULL);
  } else if (item instanceof Versionstamp) packVersionstamp(out, item);
  else if (item instanceof Double) packDouble(out, item.value);
  else if (item instanceof Float) packFloat(out, item.value);
  else {
    assert(item instanceof Uuid, "The items of a tuple must be of the types in TupleItem");
    out.push(UUID);
    packRaw(out, item.bytes);
  }
}

function packString(out: PackBuffer, text: string): void {
  out.push(STRING);
  const start = out.length;
  out.reserve(text.length * 2 + 1);
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code >= 0x80) {
      // Not an ASCII string: discard what was packed, and pack the whole string encoded.
      out.length = start;
      const encoded = utf8Encode(text);
      assert(isWellFormed(text), "A string in a key must not contain a lone surrogate");
      packEscaped(out, encoded);
      return;
    }
    out.bytes[out.length++] = code;
    if (code === 0) out.bytes[out.length++] = ESCAPE;
  }
  out.push(NULL);
}

function isWellFormed(text: string): boolean {
  return !/[\ud800-\udfff]/u.test(text);
}

function packEscaped(out: PackBuffer, bytes: Uint8Array): void {
  out.reserve(bytes.length * 2 + 1);
  for (let index = 0; index < bytes.length; index++) {
    const byte = bytes[index] as number;
    out.bytes[out.length++] = byte;
    if (byte === 0) out.bytes[out.length++] = ESCAPE;
  }
  out.bytes[out.length++] = NULL;
}

function packRaw(out: PackBuffer, bytes: Uint8Array): void {
  out.reserve(bytes.length);
  out.bytes.set(bytes, out.length);
  out.length += bytes.length;
}

function packNumber(out: PackBuffer, value: number): void {
  if (!Number.isSafeInteger(value) || Object.is(value, -0)) {
    packDouble(out, value);
    return;
  }
  const magnitude = Math.abs(value);
  let byteCount = 0;
  for (let rest = magnitude; rest >= 1; rest = Math.floor(rest / 256)) byteCount++;
  out.push(value < 0 ? ZERO - byteCount : ZERO + byteCount);
  out.reserve(byteCount);
  const flip = value < 0 ? 0xff : 0;
  let rest = magnitude;
  for (let index = out.length + byteCount - 1; index >= out.length; index--) {
    out.bytes[index] = (rest % 256) ^ flip;
    rest = Math.floor(rest / 256);
  }
  out.length += byteCount;
}

function packBigint(out: PackBuffer, value: bigint): void {
  const negative = value < 0n;
  const magnitude = negative ? -value : value;
  const digits = magnitude === 0n ? "" : magnitude.toString(16);
  const padded = digits.length % 2 === 0 ? digits : `0${digits}`;
  const byteCount = padded.length / 2;
  assert(byteCount <= INTEGER_BYTES_MAX, "An integer in a tuple must not exceed 255 bytes");
  if (byteCount <= 8) out.push(negative ? ZERO - byteCount : ZERO + byteCount);
  else {
    out.push(negative ? NEGATIVE_BIG : POSITIVE_BIG);
    out.push(negative ? byteCount ^ 0xff : byteCount);
  }
  const flip = negative ? 0xff : 0;
  for (let index = 0; index < padded.length; index += 2) {
    out.push(Number.parseInt(padded.slice(index, index + 2), 16) ^ flip);
  }
}

function packDouble(out: PackBuffer, value: number): void {
  numberView.setFloat64(0, value);
  out.push(DOUBLE);
  packFloatBytes(out, 8);
}

function packFloat(out: PackBuffer, value: number): void {
  numberView.setFloat32(0, value);
  out.push(FLOAT);
  packFloatBytes(out, 4);
}

/**
 * Flips the sign bit of positive numbers and every bit of negative ones, so that they sort as
 * unsigned bytes.
 */
function packFloatBytes(out: PackBuffer, byteCount: number): void {
  const negative = ((numberBytes[0] as number) & 0x80) !== 0;
  out.push((numberBytes[0] as number) ^ (negative ? 0xff : 0x80));
  for (let index = 1; index < byteCount; index++) {
    out.push((numberBytes[index] as number) ^ (negative ? 0xff : 0));
  }
}

function packVersionstamp(out: PackBuffer, stamp: Versionstamp): void {
  out.push(VERSIONSTAMP);
  if (!stamp.complete) {
    out.stampOffset = out.length;
    out.stampCount++;
  }
  packRaw(out, stamp.bytes);
}

/** Reads a packed tuple from its first byte to its last. */
class TupleReader {
  readonly #bytes: Uint8Array;
  #at: number;

  constructor(bytes: Uint8Array, offset: number) {
    this.#bytes = bytes;
    this.#at = offset;
  }

  readAll(): TupleItem[] {
    const items: TupleItem[] = [];
    while (this.#at < this.#bytes.length) items.push(this.#readItem());
    return items;
  }

  readText(): string {
    assert(this.#bytes[this.#at++] === STRING, "The item of the packed tuple must be a string");
    return this.#readString();
  }

  #readItem(): TupleItem {
    const code = this.#bytes[this.#at++] as number;
    switch (code) {
      case NULL:
        return null;
      case BYTES:
        return this.#readEscaped();
      case STRING:
        return this.#readString();
      case NESTED:
        return this.#readNested();
      case FALSE:
        return false;
      case TRUE:
        return true;
      case FLOAT:
        return new Float(this.#readFloat(4));
      case DOUBLE:
        return plainDouble(this.#readFloat(8));
      case UUID:
        return new Uuid(this.#take(16));
      case VERSIONSTAMP:
        return Versionstamp.fromBytes(this.#take(VERSIONSTAMP_BYTES));
      case POSITIVE_BIG:
        return this.#readInteger(this.#take(1)[0] as number, false);
      case NEGATIVE_BIG:
        return this.#readInteger((this.#take(1)[0] as number) ^ 0xff, true);
      default:
        assert(code > NEGATIVE_BIG && code < POSITIVE_BIG, "The bytes must be a packed tuple");
        return this.#readInteger(Math.abs(code - ZERO), code < ZERO);
    }
  }

  #take(byteCount: number): Uint8Array {
    const end = this.#at + byteCount;
    assert(end <= this.#bytes.length, "A packed tuple must not end inside an item");
    const taken = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return taken;
  }

  /** Most strings contain no zero byte and need no unescaped copy. */
  #readString(): string {
    const start = this.#at;
    const end = this.#bytes.indexOf(NULL, start);
    if (end < 0 || this.#bytes[end + 1] === ESCAPE) return utf8Decode(this.#readEscaped());
    this.#at = end + 1;
    return utf8Slice(this.#bytes, start, end);
  }

  /**
   * Reads up to the next unescaped zero byte. Always copies, so that the result does not share the
   * key's memory.
   */
  #readEscaped(): Uint8Array {
    const bytes = this.#bytes;
    const start = this.#at;
    let zeroCount = 0;
    let end = bytes.indexOf(NULL, start);
    while (end >= 0 && bytes[end + 1] === ESCAPE) {
      zeroCount++;
      end = bytes.indexOf(NULL, end + 2);
    }
    assert(end >= 0, "A packed tuple must not end inside an item");
    this.#at = end + 1;
    if (zeroCount === 0) return Uint8Array.prototype.slice.call(bytes, start, end);
    const plain = new Uint8Array(end - start - zeroCount);
    let out = 0;
    for (let index = start; index < end; index++) {
      plain[out++] = bytes[index] as number;
      if (bytes[index] === NULL) index++;
    }
    return plain;
  }

  #readNested(): TupleItem[] {
    const items: TupleItem[] = [];
    for (;;) {
      assert(this.#at < this.#bytes.length, "A packed tuple must not end inside an item");
      if (this.#bytes[this.#at] !== NULL) items.push(this.#readItem());
      else if (this.#bytes[this.#at + 1] === ESCAPE) {
        items.push(null);
        this.#at += 2;
      } else {
        this.#at++;
        return items;
      }
    }
  }

  #readInteger(byteCount: number, negative: boolean): number | bigint {
    const flip = negative ? 0xff : 0;
    if (byteCount <= 6) {
      const end = this.#at + byteCount;
      assert(end <= this.#bytes.length, "A packed tuple must not end inside an item");
      let value = 0;
      while (this.#at < end) value = value * 256 + ((this.#bytes[this.#at++] as number) ^ flip);
      return negative && value !== 0 ? -value : value;
    }
    const bytes = this.#take(byteCount);
    let big = 0n;
    for (const byte of bytes) big = (big << 8n) | BigInt(byte ^ flip);
    if (negative) big = -big;
    const value = Number(big);
    return Number.isSafeInteger(value) ? value : big;
  }

  #readFloat(byteCount: 4 | 8): number {
    const bytes = this.#take(byteCount);
    const negative = ((bytes[0] as number) & 0x80) === 0;
    for (let index = 0; index < byteCount; index++) {
      numberBytes[index] = (bytes[index] as number) ^ (negative ? 0xff : index === 0 ? 0x80 : 0);
    }
    return byteCount === 4 ? numberView.getFloat32(0) : numberView.getFloat64(0);
  }
}

/**
 * A double with an integer value keeps its wrapper, so that packing it again yields the same bytes.
 */
function plainDouble(value: number): number | Double {
  return Number.isSafeInteger(value) && !Object.is(value, -0) ? new Double(value) : value;
}
