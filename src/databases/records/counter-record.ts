/**
 * Counters in the form of the store's atomic add (64 bits, little-endian, signed), and
 * versionstamps as values.
 */
import { assert, concatBytes } from "../../base/index.ts";
import {
  type ReadTransaction,
  VERSIONSTAMP_BYTES,
  Versionstamp,
  type VersionstampedBytes,
} from "../../kv/index.ts";
import { type Counter, counterElement, type DatabaseKeys } from "./database-keys.ts";

const FORMAT = 1;

export function encodeCounter(count: number): Uint8Array {
  const value = new Uint8Array(8);
  new DataView(value.buffer).setBigInt64(0, BigInt(count), true);
  return value;
}

export function decodeCounter(value: Uint8Array | undefined): number {
  if (value === undefined) return 0;
  assert(value.length === 8, "A counter must have 64 bits");
  return Number(new DataView(value.buffer, value.byteOffset, 8).getBigInt64(0, true));
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
