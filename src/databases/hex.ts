/** Hexadecimal digits at the speed that every key of a leaf and every revision of a history asks for. */

const DIGITS = "0123456789abcdef";
const CODES = Uint8Array.from(DIGITS, (digit) => digit.charCodeAt(0));
const VALUES = new Int8Array(128).fill(-1);
for (const [value, digit] of [...DIGITS].entries()) {
  VALUES[digit.charCodeAt(0)] = value;
  VALUES[digit.toUpperCase().charCodeAt(0)] = value;
}

const decoder = new TextDecoder("latin1");

/** The bytes of an even number of digits; undefined when one is none. */
export function hexDecode(text: string): Uint8Array | undefined {
  const bytes = new Uint8Array(text.length >> 1);
  return writeHex(text, bytes, 0) ? bytes : undefined;
}

/** The bytes of the digits, from `offset`. False when one is none; what was written then is garbage. */
export function writeHex(text: string, bytes: Uint8Array, offset: number): boolean {
  for (let index = 0; index < text.length; index += 2) {
    const high = VALUES[text.charCodeAt(index)] ?? -1;
    const low = VALUES[text.charCodeAt(index + 1)] ?? -1;
    if (high < 0 || low < 0) return false;
    bytes[offset + (index >> 1)] = high * 16 + low;
  }
  return true;
}

/** Lower-case digits. */
export function hexEncode(bytes: Uint8Array): string {
  const codes = new Uint8Array(bytes.length * 2);
  for (let index = 0; index < bytes.length; index++) {
    const byte = bytes[index] as number;
    codes[index * 2] = CODES[byte >> 4] as number;
    codes[index * 2 + 1] = CODES[byte & 15] as number;
  }
  return decoder.decode(codes);
}
