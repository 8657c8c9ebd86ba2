/** Byte strings: comparison, concatenation and encodings. */
import { cutBytes } from "./byte-slab.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export const EMPTY_BYTES: Uint8Array = new Uint8Array(0);

/** Buffer for encoding short strings, which are then copied into an array of the exact length. */
const scratch = new Uint8Array(49_152);
/** UTF-8 needs at most three bytes per UTF-16 code unit. */
export const BYTES_PER_UNIT_MAX = 3;

export function utf8Encode(text: string): Uint8Array {
  // `encode`, which allocates its result, takes ten times as long for a short string.
  if (text.length * BYTES_PER_UNIT_MAX > scratch.length) return encoder.encode(text);
  return cutBytes(scratch, 0, encoder.encodeInto(text, scratch).written);
}

/**
 * Concatenates strings and bytes as UTF-8. Consecutive strings are encoded together, because a call
 * to the encoder costs more than encoding a hundred characters.
 */
export class Utf8Writer {
  #bytes: Uint8Array<ArrayBuffer>;
  #byteCount = 0;
  /** Collected text that has not been encoded yet. */
  #text = "";

  constructor(byteCountExpected: number) {
    this.#bytes = new Uint8Array(byteCountExpected);
  }

  /** Approximate number of bytes written: text not yet encoded counts one byte per code unit. */
  get length(): number {
    return this.#byteCount + this.#text.length;
  }

  /**
   * Reserves capacity for `byteCount` bytes in total. Without a reservation, the buffer grows by
   * doubling.
   */
  expect(byteCount: number): void {
    this.#encode();
    if (byteCount > this.#byteCount) this.#reserve(byteCount - this.#byteCount);
  }

  text(text: string): void {
    this.#text += text;
    if (this.#text.length > TEXT_LENGTH_MAX) this.#encode();
  }

  bytes(bytes: Uint8Array): void {
    this.#encode();
    this.#reserve(bytes.length);
    this.#bytes.set(bytes, this.#byteCount);
    this.#byteCount += bytes.length;
  }

  /** Appends the bytes in base64. */
  base64(bytes: Uint8Array): void {
    this.#encode();
    const text = base64Encode(bytes);
    this.#reserve(text.length);
    encoder.encodeInto(text, this.#bytes.subarray(this.#byteCount));
    this.#byteCount += text.length;
  }

  /** Returns the bytes written, which share the writer's memory. */
  finish(): Uint8Array<ArrayBuffer> {
    this.#encode();
    return this.#bytes.subarray(0, this.#byteCount);
  }

  #encode(): void {
    const text = this.#text;
    if (text === "") return;
    this.#text = "";
    const { read, written } = encoder.encodeInto(text, this.#bytes.subarray(this.#byteCount));
    this.#byteCount += written;
    if (read === text.length) return;
    this.#reserve((text.length - read) * BYTES_PER_UNIT_MAX);
    this.#text = text.slice(read);
    this.#encode();
  }

  #reserve(byteCount: number): void {
    const needed = this.#byteCount + byteCount;
    if (needed <= this.#bytes.length) return;
    const grown = new Uint8Array(Math.max(this.#bytes.length * 2, needed));
    grown.set(this.#bytes.subarray(0, this.#byteCount));
    this.#bytes = grown;
  }
}

/** Length at which collected text is encoded. */
const TEXT_LENGTH_MAX = 16_384;

/** Decodes UTF-8. Throws a TypeError if the bytes are invalid. */
export function utf8Decode(bytes: Uint8Array): string {
  return decoder.decode(bytes);
}

/**
 * Node's own methods of Buffer. For short strings such as keys and names, they are several times as
 * fast as the standard ones.
 */
const platform = globalThis.Buffer?.prototype ?? {};

/** Decodes the bytes from `begin` up to `end`, which must be valid UTF-8. */
export function utf8Slice(bytes: Uint8Array, begin: number, end: number): string {
  if (platform.utf8Slice !== undefined) return platform.utf8Slice.call(bytes, begin, end);
  return decoder.decode(bytes.subarray(begin, end));
}

export function hasByte(bytes: Uint8Array, byte: number): boolean {
  if (platform.indexOf !== undefined) return platform.indexOf.call(bytes, byte) >= 0;
  return bytes.includes(byte);
}

/** Returns a string with one character (up to U+00FF) per byte, which sorts as the bytes do. */
export function byteText(bytes: Uint8Array, begin = 0, end = bytes.length): string {
  if (platform.latin1Slice !== undefined) return platform.latin1Slice.call(bytes, begin, end);
  let text = "";
  for (let at = begin; at < end; at += PIECE_LENGTH) {
    const piece = bytes.subarray(at, Math.min(end, at + PIECE_LENGTH));
    text += String.fromCharCode.apply(null, piece as unknown as number[]);
  }
  return text;
}

/**
 * Number of characters per `String.fromCharCode` call. Far below the JavaScript engine's limit for
 * the number of arguments.
 */
const PIECE_LENGTH = 4_096;

/** Compares bytewise; a prefix sorts first. Returns a negative or positive number, or zero. */
export function compareBytes(left: Uint8Array, right: Uint8Array): number {
  const shared = Math.min(left.length, right.length);
  for (let index = 0; index < shared; index++) {
    const difference = (left[index] as number) - (right[index] as number);
    if (difference !== 0) return difference;
  }
  return left.length - right.length;
}

export function equalBytes(left: Uint8Array, right: Uint8Array): boolean {
  return left.length === right.length && compareBytes(left, right) === 0;
}

export function startsWithBytes(bytes: Uint8Array, prefix: Uint8Array): boolean {
  if (bytes.length < prefix.length) return false;
  for (let index = 0; index < prefix.length; index++) {
    if (bytes[index] !== prefix[index]) return false;
  }
  return true;
}

export function concatBytes(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  let length = 0;
  for (const part of parts) length += part.length;
  const joined = new Uint8Array(length);
  let offset = 0;
  for (const part of parts) {
    joined.set(part, offset);
    offset += part.length;
  }
  return joined;
}

const BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE64_CODES = utf8Encode(BASE64);
const BASE64_VALUES = new Int8Array(256).fill(-1);
for (let value = 0; value < 64; value++) BASE64_VALUES[BASE64_CODES[value] as number] = value;
const PAD = 0x3d;

/** Base64 with padding (RFC 4648, section 4). */
export function base64Encode(bytes: Uint8Array): string {
  if (platform.base64Slice !== undefined) return platform.base64Slice.call(bytes, 0, bytes.length);
  const codes = new Uint8Array(Math.ceil(bytes.length / 3) * 4);
  let out = 0;
  for (let index = 0; index < bytes.length; index += 3) {
    const left = bytes.length - index;
    const word =
      ((bytes[index] as number) << 16) | ((bytes[index + 1] ?? 0) << 8) | (bytes[index + 2] ?? 0);
    codes[out++] = BASE64_CODES[word >> 18] as number;
    codes[out++] = BASE64_CODES[(word >> 12) & 63] as number;
    codes[out++] = left > 1 ? (BASE64_CODES[(word >> 6) & 63] as number) : PAD;
    codes[out++] = left > 2 ? (BASE64_CODES[word & 63] as number) : PAD;
  }
  return byteText(codes);
}

/**
 * Decodes base64, ignoring white space. Returns undefined if the text is invalid. With `isPadded`,
 * missing or superfluous padding is invalid too.
 */
export function base64Decode(text: string, { isPadded = false } = {}): Uint8Array | undefined {
  if (platform.base64Write !== undefined && text.length % 4 === 0) {
    const padLength = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
    const decoded = new Uint8Array((text.length / 4) * 3 - padLength);
    platform.base64Write.call(decoded, text);
    // Node decodes invalid input without an error, so the result is encoded again and compared.
    // This is thirty times as fast as a regular expression.
    if (base64Encode(decoded) === text) return decoded;
  }
  const bytes = new Uint8Array(Math.floor((text.length * 3) / 4));
  let out = 0;
  let word = 0;
  let digitCount = 0;
  let padCount = 0;
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09) continue;
    if (code === PAD) {
      padCount++;
      continue;
    }
    const value = code < 256 ? (BASE64_VALUES[code] as number) : -1;
    if (padCount > 0 || value < 0) return undefined;
    word = ((word << 6) | value) & 0xffffff;
    digitCount++;
    if (digitCount % 4 === 0) {
      bytes[out++] = word >> 16;
      bytes[out++] = (word >> 8) & 255;
      bytes[out++] = word & 255;
    }
  }
  const rest = digitCount % 4;
  if (rest === 1 || (isPadded && padCount !== (4 - rest) % 4)) return undefined;
  if (rest === 2) bytes[out++] = (word >> 4) & 255;
  if (rest === 3) {
    bytes[out++] = (word >> 10) & 255;
    bytes[out++] = (word >> 2) & 255;
  }
  return bytes.subarray(0, out);
}
