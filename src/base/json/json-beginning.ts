/**
 * Parses the beginning of a long JSON text. The first 100 values of a text of 6 MB take 3 ms
 * instead of 38.
 */
import { utf8Slice } from "../bytes.ts";
import { openBrackets, scanUntil, UNLIMITED } from "./json-scan.ts";
import { parseJson } from "./json-value.ts";

/** Bytes scanned per step. */
const STEP_BYTES = 4_096;
const COMMA = 0x2c;
const SPACE = 0x20;

const SCAN_OPTIONS = { ...UNLIMITED, depthMax: 0, keepsStrings: true };

/**
 * Parses a valid text. Truncates arrays and objects soon after `valueCount` values have been read,
 * but not before. Every scalar, array and object counts, in text order.
 */
export function parseBeginning(bytes: Uint8Array, valueCount: number): unknown {
  let scanned = scanUntil(bytes, SCAN_OPTIONS, STEP_BYTES);
  while (!scanned.isWhole && scanned.valueCount < valueCount) {
    scanned = scanUntil(bytes, SCAN_OPTIONS, scanned.at + STEP_BYTES, scanned);
  }
  if (scanned.isWhole) return parseJson(utf8Slice(bytes, 0, bytes.length));
  const end = valueEndBefore(bytes, scanned.at);
  return parseJson(utf8Slice(bytes, 0, end) + closing(openBrackets(scanned)));
}

/** Returns the end of the value, or of the opening bracket, that precedes the value at `next`. */
export function valueEndBefore(bytes: Uint8Array, next: number): number {
  let end = next;
  while (bytes[end - 1] === COMMA || (bytes[end - 1] as number) <= SPACE) end--;
  return end;
}

function closing(brackets: readonly ("[" | "{")[]): string {
  return brackets
    .map((bracket) => (bracket === "{" ? "}" : "]"))
    .reverse()
    .join("");
}
