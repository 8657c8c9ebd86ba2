/**
 * Counters in the form of the store's atomic add (64 bits, little-endian, signed), and
 * versionstamps as values.
 */
import { assert, concatBytes } from "../../base/index.ts";
import {
  decodeCounter,
  littleEndian64,
  type ReadTransaction,
  VERSIONSTAMP_BYTES,
  Versionstamp,
  type VersionstampedBytes,
} from "../../kv/index.ts";
import { type Counter, counterElement, type DatabaseKeys } from "./database-keys.ts";

export { decodeCounter };

const FORMAT = 1;

export function encodeCounter(count: number): Uint8Array {
  return littleEndian64(BigInt(count));
}

/**
 * Reads a counter without a read conflict, so that the transaction does not conflict with writers.
 */
export async function readCounter(
  tx: ReadTransaction,
  keys: DatabaseKeys,
  counter: Counter,
): Promise<number> {
  return decodeCounter(await tx.snapshot.get(keys.counter.key(counterElement(counter))));
}

/** Encodes a versionstamp as a value, which the commit completes: format (1), versionstamp (12). */
export function encodeNewVersionstamp(userVersion: number): VersionstampedBytes {
  const bytes = new Uint8Array(1 + VERSIONSTAMP_BYTES);
  bytes[0] = FORMAT;
  bytes.set(Versionstamp.incomplete(userVersion).bytes, 1);
  return { bytes, offset: 1 };
}

export function encodeVersionstamp({ bytes }: Versionstamp): Uint8Array {
  return concatBytes([new Uint8Array([FORMAT]), bytes]);
}

export function decodeVersionstamp(value: Uint8Array): Versionstamp {
  assert(value[0] === FORMAT, "The versionstamp record must have a supported format version");
  return Versionstamp.fromBytes(value.subarray(1));
}
