/** Fast hexadecimal conversion, for the many revision ids in keys and histories. */
import { byteText } from "./bytes.ts";

const DIGITS = "0123456789abcdef";
const CODES = Uint8Array.from(DIGITS, (digit) => digit.charCodeAt(0));
const VALUES = new Int8Array(128).fill(-1);
for (const [value, digit] of [...DIGITS].entries()) {
  VALUES[digit.charCodeAt(0)] = value;
  VALUES[digit.toUpperCase().charCodeAt(0)] = value;
}

const UPPER_A = 0x41;
const UPPER_F = 0x46;

/** Shared buffer for encoding short byte strings. */
const scratch = new Uint8Array(1_024);

/** Decodes an even number of digits in either case. Returns undefined for any other text. */
export function hexDecode(text: string): Uint8Array | undefined {
  const bytes = new Uint8Array(text.length >> 1);
  return writeHex(text, bytes, 0) ? bytes : undefined;
}

/**
 * Writes the decoded bytes at `offset`. Returns false at the first invalid pair of digits; earlier
 * bytes have then been written.
 */
export function writeHex(text: string, bytes: Uint8Array, offset: number): boolean {
  for (let index = 0; index < text.length; index += 2) {
    const high = VALUES[text.charCodeAt(index)] ?? -1;
    const low = VALUES[text.charCodeAt(index + 1)] ?? -1;
    if (high < 0 || low < 0) return false;
    bytes[offset + (index >> 1)] = high * 16 + low;
  }
  return true;
}

/** Whether the text consists of lower-case hexadecimal digits. */
export function isLowerCaseHex(text: string): boolean {
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if ((VALUES[code] ?? -1) < 0 || (code >= UPPER_A && code <= UPPER_F)) return false;
  }
  return true;
}

/** Encodes the bytes from `begin` up to `end` as lower-case hexadecimal digits. */
export function hexEncode(bytes: Uint8Array, begin = 0, end = bytes.length): string {
  const digitCount = (end - begin) * 2;
  const codes = digitCount <= scratch.length ? scratch : new Uint8Array(digitCount);
  for (let index = 0; index < end - begin; index++) {
    const byte = bytes[begin + index] as number;
    codes[index * 2] = CODES[byte >> 4] as number;
    codes[index * 2 + 1] = CODES[byte & 15] as number;
  }
  return byteText(codes, 0, digitCount);
}
