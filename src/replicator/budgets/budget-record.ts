/** Encodes and decodes stored budgets and reservations. The first element is the format version. */
import { assert } from "../../base/index.ts";
import { packJson, packTuple, unpackJson, unpackTuple } from "../../kv/index.ts";
import type { Budget } from "./budget.ts";

const FORMAT = 1;

export function encodeBudget(budget: Budget): Uint8Array {
  return packJson(FORMAT, budget);
}

export function decodeBudget(value: Uint8Array): Budget {
  return unpackJson(value, FORMAT, "A budget must have a supported format version") as Budget;
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
