/** The rows that a look through a JSON text leaves (`json-scan.ts`), and the strings that they point to. */
import { hasByte, utf8Slice } from "./bytes.ts";

/** A value is a row of numbers. The rows of what it holds follow, in order. */
export const ROW_LENGTH = 5;
/** Where the quotes of its name begin and end; nothing in an array, or for the whole. */
export const NAME_START = 0;
export const NAME_END = 1;
export const VALUE_START = 2;
export const VALUE_END = 3;
/** The index in the rows of what comes behind all that the value holds. */
export const NEXT = 4;

export const BACKSLASH = 0x5c;

/** What the string from `start` to `end`, with its quotes, stands for. */
export function stringText(bytes: Uint8Array, start: number, end: number): string {
  if (isSpelled(bytes, start, end)) return JSON.parse(utf8Slice(bytes, start, end));
  return utf8Slice(bytes, start + 1, end - 1);
}

/** Whether there are escapes in a string. */
export function isSpelled(bytes: Uint8Array, start: number, end: number): boolean {
  if (end - start > LONG_STRING) return hasByte(bytes.subarray(start, end), BACKSLASH);
  for (let at = start; at < end; at++) if (bytes[at] === BACKSLASH) return true;
  return false;
}

/** From so many bytes on, a string is looked through by other means than byte for byte. */
export const LONG_STRING = 256;

/** Whether two members have the same name, however it is spelled; by their rows. */
export function isSameName(
  bytes: Uint8Array,
  rows: Int32Array,
  left: number,
  right: number,
): boolean {
  const leftStart = rows[left + NAME_START] as number;
  const leftEnd = rows[left + NAME_END] as number;
  const rightStart = rows[right + NAME_START] as number;
  const rightEnd = rows[right + NAME_END] as number;
  for (let at = 1; at < leftEnd - leftStart - 1; at++) {
    const byte = bytes[leftStart + at];
    const other = bytes[rightStart + at];
    if (byte === BACKSLASH || other === BACKSLASH) {
      return stringText(bytes, leftStart, leftEnd) === stringText(bytes, rightStart, rightEnd);
    }
    if (byte !== other) return false;
  }
  return leftEnd - leftStart === rightEnd - rightStart;
}
