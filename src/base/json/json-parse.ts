/**
 * `JSON.parse` for long texts that yields to the event loop. For 400,000 strings in 6 MB
 * (`bench/base/long-json.mjs`), the event loop is blocked for at most 25 ms, compared with 44 to 76
 * ms for `JSON.parse`. The total time is twice as long.
 */
import { utf8Encode, utf8Slice } from "../bytes.ts";
import type { Yielder } from "../yielder.ts";
import {
  isBetweenElements,
  type ScannedJson,
  type ScanPause,
  scanUntil,
  UNLIMITED,
} from "./json-scan.ts";
import { type JsonText, type JsonValue, outlineJsonYielding } from "./json-text.ts";
import { objectOf } from "./json-value.ts";

/** Maximum length parsed in one step, which takes a few milliseconds. */
const STEP_BYTES = 16_384;

const COMMA = 0x2c;
const SPACE = 0x20;
const OPEN_BRACKET = 0x5b;

const SCAN_OPTIONS = { ...UNLIMITED, depthMax: 0, keepsStrings: true };

type Parse = (text: JsonText) => unknown;

/** Parses a valid text with `parse`. A single array element is always parsed in one step. */
export async function parseYielding(
  text: JsonText,
  yielder: Yielder,
  parse: Parse = JSON.parse,
): Promise<unknown> {
  if (text.length <= STEP_BYTES) return parse(text);
  const bytes = utf8Encode(text.trim());
  // Avoids an outline, which would need a row per element of a long array.
  if (bytes[0] === OPEN_BRACKET) return elementsOf(bytes, yielder, parse);
  return parsed(await outlineJsonYielding(bytes, { depthMax: 1 }, yielder), yielder, parse);
}

/** Yields the elements of an array in batches. */
export async function* parseElements(
  text: JsonText,
  yielder: Yielder,
): AsyncGenerator<unknown[], void> {
  if (text.length <= STEP_BYTES) yield JSON.parse(text);
  else yield* batchesOf(utf8Encode(text.trim()), yielder, JSON.parse);
}

async function parsed(value: JsonValue, yielder: Yielder, parse: Parse): Promise<unknown> {
  if (yielder.isDue) await yielder.yield();
  if (value.length <= STEP_BYTES) return parse(value.text);
  if (value.isArray) return elementsOf(value.bytes, yielder, parse);
  if (!value.isObject) return parse(value.text);
  const open = value.isOpen
    ? value
    : await outlineJsonYielding(value.bytes, { depthMax: 1 }, yielder);
  const members: [name: string, value: unknown][] = [];
  for (const { name, value: inner } of open.eachValue()) {
    members.push([name, await parsed(inner, yielder, parse)]);
  }
  return parse === JSON.parse ? Object.fromEntries(members) : objectOf(members);
}

async function elementsOf(bytes: Uint8Array, yielder: Yielder, parse: Parse): Promise<unknown[]> {
  const elements: unknown[] = [];
  for await (const some of batchesOf(bytes, yielder, parse)) {
    for (const element of some) elements.push(element);
  }
  return elements;
}

/** Yields batches of elements. `bytes` must begin and end with the array's brackets. */
async function* batchesOf(
  bytes: Uint8Array,
  yielder: Yielder,
  parse: Parse,
): AsyncGenerator<unknown[], void> {
  let begin = 1;
  let scanned: ScannedJson | ScanPause | undefined;
  while (scanned?.isWhole !== true) {
    if (yielder.isDue) await yielder.yield();
    scanned = scanUntil(bytes, SCAN_OPTIONS, begin + STEP_BYTES, scanned);
    while (!scanned.isWhole && !isBetweenElements(scanned)) {
      if (yielder.isDue) await yielder.yield();
      scanned = scanUntil(bytes, SCAN_OPTIONS, scanned.at + STEP_BYTES, scanned);
    }
    const end = scanned.isWhole ? bytes.length - 1 : valueEndBefore(bytes, scanned.at);
    yield parse(`[${utf8Slice(bytes, begin, end)}]`) as unknown[];
    if (!scanned.isWhole) begin = scanned.at;
  }
}

/** Returns the end of the element that precedes the one at `next`. */
function valueEndBefore(bytes: Uint8Array, next: number): number {
  let end = next;
  while (bytes[end - 1] === COMMA || (bytes[end - 1] as number) <= SPACE) end--;
  return end;
}
