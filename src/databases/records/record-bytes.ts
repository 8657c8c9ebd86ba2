/**
 * Encoding of stored records: variable-length integers (7 bits per byte, low first), and byte
 * strings and text strings, preceded by their lengths. Shorter and faster than tuples, whose order
 * is useless within a value.
 */
import { assert, hexEncode, utf8Decode, utf8Encode, writeHex } from "../../base/index.ts";

const INITIAL_BYTES = 1_024;
/** Maximum size of a buffer kept for the next writer. */
const KEPT_BYTES_MAX = 65_536;
/** Longest string whose length is encoded in one byte. */
const SHORT_LENGTH_MAX = 0x7f;

/**
 * Buffer of the last writer, reused by the next one, since most records are written one after the
 * other.
 */
let spareBytes: Uint8Array | undefined;

/** Writes one record; unusable after `finish`. */
export class RecordWriter {
  #bytes: Uint8Array;
  #length = 0;

  constructor() {
    this.#bytes = spareBytes ?? new Uint8Array(INITIAL_BYTES);
    spareBytes = undefined;
  }

  /** Number of bytes written. */
  get length(): number {
    return this.#length;
  }

  byte(value: number): this {
    this.#reserve(1);
    this.#bytes[this.#length++] = value;
    return this;
  }

  /** Writes a non-negative safe integer. */
  integer(value: number): this {
    assert(
      Number.isSafeInteger(value) && value >= 0,
      "An integer in a record must be non-negative and safe",
    );
    this.#reserve(8);
    let rest = value;
    while (rest >= 0x80) {
      this.#bytes[this.#length++] = (rest % 0x80) | 0x80;
      rest = Math.floor(rest / 0x80);
    }
    this.#bytes[this.#length++] = rest;
    return this;
  }

  /** Writes bytes without their length, which the reader has to know. */
  raw(bytes: Uint8Array): this {
    this.#reserve(bytes.length);
    this.#bytes.set(bytes, this.#length);
    this.#length += bytes.length;
    return this;
  }

  /** Writes bytes given as hex digits. */
  hex(digits: string): this {
    this.#reserve(digits.length >> 1);
    assert(writeHex(digits, this.#bytes, this.#length), "The digits must be valid hex");
    this.#length += digits.length >> 1;
    return this;
  }

  sized(bytes: Uint8Array): this {
    return this.integer(bytes.length).raw(bytes);
  }

  text(text: string): this {
    return this.#shortAscii(text) ? this : this.sized(utf8Encode(text));
  }

  /**
   * Writes a short ASCII string in place, because encoding it into a separate array would cost
   * more. Most names and types are such strings. Returns false for any other string.
   */
  #shortAscii(text: string): boolean {
    const { length } = text;
    if (length > SHORT_LENGTH_MAX) return false;
    this.#reserve(1 + length);
    const bytes = this.#bytes;
    const begin = this.#length + 1;
    for (let at = 0; at < length; at++) {
      const code = text.charCodeAt(at);
      if (code >= 0x80) return false;
      bytes[begin + at] = code;
    }
    bytes[begin - 1] = length;
    this.#length = begin + length;
    return true;
  }

  finish(): Uint8Array {
    return this.finishBriefly().slice();
  }

  /**
   * Returns the record in a shared buffer, valid until another record is begun. For callers that
   * copy it immediately, such as a transaction.
   */
  finishBriefly(): Uint8Array {
    if (this.#bytes.length <= KEPT_BYTES_MAX) spareBytes = this.#bytes;
    return this.#bytes.subarray(0, this.#length);
  }

  #reserve(byteCount: number): void {
    const needed = this.#length + byteCount;
    if (needed <= this.#bytes.length) return;
    const larger = new Uint8Array(Math.max(needed, this.#bytes.length * 2));
    larger.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = larger;
  }
}

export class RecordReader {
  readonly #bytes: Uint8Array;
  #at: number;

  constructor(bytes: Uint8Array, at = 0) {
    this.#bytes = bytes;
    this.#at = at;
  }

  byte(): number {
    const value = this.#bytes[this.#at++];
    assert(value !== undefined, "A record must not end inside a field");
    return value;
  }

  integer(): number {
    let value = 0;
    let scale = 1;
    for (;;) {
      const byte = this.byte();
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) break;
      scale *= 0x80;
    }
    assert(Number.isSafeInteger(value), "An integer in a record must be safe");
    return value;
  }

  raw(byteCount: number): Uint8Array {
    const end = this.#at + byteCount;
    assert(end <= this.#bytes.length, "A record must not end inside a field");
    const bytes = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return bytes;
  }

  /** Reads bytes as lower-case hex digits. */
  hex(byteCount: number): string {
    const begin = this.#at;
    this.#at += byteCount;
    assert(this.#at <= this.#bytes.length, "A record must not end inside a field");
    return hexEncode(this.#bytes, begin, this.#at);
  }

  sized(): Uint8Array {
    return this.raw(this.integer());
  }

  text(): string {
    return utf8Decode(this.sized());
  }

  rest(): Uint8Array {
    return this.raw(this.#bytes.length - this.#at);
  }
}
