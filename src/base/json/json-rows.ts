/** Layout of the rows from a JSON scan (`json-scan.ts`), and access to their strings. */
import { hasByte, utf8Slice } from "../bytes.ts";

/**
 * Number of integers per row. Each value has a row. The rows of nested values follow the row of
 * their container, in order.
 */
export const ROW_LENGTH = 5;
/**
 * Fields of a row. The name of a member, with its quotes, is between `NAME_START` and `NAME_END`.
 * Both are unused for an element of an array and for the outermost value.
 */
export const NAME_START = 0;
export const NAME_END = 1;
export const VALUE_START = 2;
export const VALUE_END = 3;
/** Field with the index of the row after all nested values. */
export const NEXT = 4;

export const BACKSLASH = 0x5c;

/** Decodes the JSON string whose text, including its quotes, is from `start` to `end`. */
export function stringText(bytes: Uint8Array, start: number, end: number): string {
  if (hasEscapes(bytes, start, end)) return JSON.parse(utf8Slice(bytes, start, end));
  return utf8Slice(bytes, start + 1, end - 1);
}

/** Whether the string is written with escapes. */
export function hasEscapes(bytes: Uint8Array, start: number, end: number): boolean {
  if (end - start > LONG_STRING) return hasByte(bytes.subarray(start, end), BACKSLASH);
  for (let at = start; at < end; at++) if (bytes[at] === BACKSLASH) return true;
  return false;
}

/** Length in bytes above which a string is scanned with native methods rather than a loop. */
export const LONG_STRING = 256;

/** Whether two members, given by their rows, have the same name after decoding. */
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
