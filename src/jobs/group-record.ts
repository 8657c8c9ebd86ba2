/**
 * The stored form of a group and of a type's fair share. The first element is the format version.
 */
import { assert } from "../base/index.ts";
import { Double, packTuple, unpackTuple } from "../kv/index.ts";
import type { FairShareGeneration, Standing } from "./standing.ts";

const FORMAT = 1;
const READY = 0;
const LATER = 1;

/**
 * A group's position in the group index of a type.
 *
 *   none     no job of the group is pending
 *   later    the earliest job of the group is due at `dueAtSec`
 *   ready    a job of the group is due
 */
export type Place =
  | { readonly kind: "none" }
  | { readonly kind: "later"; readonly dueAtSec: number }
  | { readonly kind: "ready" };

export function encodePlace(place: Exclude<Place, { kind: "none" }>): Uint8Array {
  return packTuple(place.kind === "ready" ? [FORMAT, READY] : [FORMAT, LATER, place.dueAtSec]);
}

export function decodePlace(value: Uint8Array): Place {
  const [format, kind, dueAtSec] = unpackTuple(value);
  assert(format === FORMAT, "The place of a group must have a supported format version");
  if (kind === READY) return { kind: "ready" };
  assert(
    kind === LATER && typeof dueAtSec === "number",
    "A group that is due later must have a due time",
  );
  return { kind: "later", dueAtSec };
}

export function encodeStanding({ shares, score, generation, decayPerSec }: Standing): Uint8Array {
  const stored = score === undefined ? null : new Double(score);
  return packTuple([FORMAT, shares, stored, generation, new Double(decayPerSec)]);
}

export function decodeStanding(value: Uint8Array): Standing {
  const [format, shares, score, generation, decayPerSec] = unpackTuple(value);
  assert(format === FORMAT, "The standing of a group must have a supported format version");
  assert(
    typeof shares === "number" && typeof generation === "number",
    "A group must have shares and a generation",
  );
  return {
    shares,
    score: score === null ? undefined : toNumber(score),
    generation,
    decayPerSec: toNumber(decayPerSec),
  };
}

export function encodeFairShare(fairShare: FairShareGeneration): Uint8Array {
  const { generation, usageCoefficient, intervalSec, instalmentSec } = fairShare;
  const numbers = [usageCoefficient, intervalSec, instalmentSec].map((value) => new Double(value));
  return packTuple([FORMAT, generation, ...numbers]);
}

export function decodeFairShare(value: Uint8Array): FairShareGeneration {
  const [format, generation, ...numbers] = unpackTuple(value);
  assert(format === FORMAT, "The fair share must have a supported format version");
  assert(typeof generation === "number", "A fair share must have a generation");
  const [usageCoefficient = 0, intervalSec = 0, instalmentSec = 0] = numbers.map(toNumber);
  return { generation, usageCoefficient, intervalSec, instalmentSec };
}

/**
 * Converts an unpacked double to a number. A double with an integer value is unpacked as a wrapper
 * object.
 */
export function toNumber(item: unknown): number {
  const value = item instanceof Double ? item.value : item;
  assert(typeof value === "number", "The stored value must be a number");
  return value;
}
