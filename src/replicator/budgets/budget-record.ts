/** Encodes and decodes stored budgets and reservations. The first element is the format version. */
import { assert, utf8Decode, utf8Encode } from "../../base/index.ts";
import { packTuple, unpackTuple } from "../../kv/index.ts";
import type { Budget } from "./budget.ts";

const FORMAT = 1;

export function encodeBudget(budget: Budget): Uint8Array {
  return packTuple([FORMAT, utf8Encode(JSON.stringify(budget))]);
}

export function decodeBudget(value: Uint8Array): Budget {
  const [format, text] = unpackTuple(value);
  assert(
    format === FORMAT && text instanceof Uint8Array,
    "A budget must have a supported format version",
  );
  return JSON.parse(utf8Decode(text)) as Budget;
}

/** Encodes the time up to which the timeline is reserved (ms since the epoch). */
export function encodeReservedUntil(timeMs: number): Uint8Array {
  return packTuple([FORMAT, Math.ceil(timeMs)]);
}

export function decodeReservedUntil(value: Uint8Array): number {
  const [format, timeMs] = unpackTuple(value);
  assert(format === FORMAT && typeof timeMs === "number", "A reservation must have an end time");
  return timeMs;
}
