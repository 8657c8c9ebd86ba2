/** Counters as the store's atomic add keeps them (64 bits, little-endian, signed), and the record of the last boundary. */
import { assert, concatBytes } from "../base/index.ts";
import {
  type ReadTransaction,
  VERSIONSTAMP_BYTES,
  Versionstamp,
  type VersionstampedBytes,
} from "../kv/index.ts";
import type { Counter, DatabaseKeys } from "./database-keys.ts";

const FORMAT = 1;

export function encodeCounter(count: number): Uint8Array {
  const value = new Uint8Array(8);
  new DataView(value.buffer).setBigInt64(0, BigInt(count), true);
  return value;
}

export function decodeCounter(value: Uint8Array | undefined): number {
  if (value === undefined) return 0;
  assert(value.length === 8, "A counter has 64 bits");
  return Number(new DataView(value.buffer, value.byteOffset, 8).getBigInt64(0, true));
}

/** Read as a snapshot: whoever counts does not disturb those who write. */
export async function readCounter(
  tx: ReadTransaction,
  keys: DatabaseKeys,
  counter: Counter,
): Promise<number> {
  return decodeCounter(await tx.snapshot.get(keys.counter(counter)));
}

/** A versionstamp as a value, which the commit fills in: format (1), versionstamp (12). */
export function encodeNewVersionstamp(userVersion: number): VersionstampedBytes {
  const bytes = new Uint8Array(1 + VERSIONSTAMP_BYTES);
  bytes[0] = FORMAT;
  bytes.set(Versionstamp.incomplete(userVersion).bytes, 1);
  return { bytes, offset: 1 };
}

/** The last boundary of the update sequence: format (1), versionstamp (12), and where the sweep of old ones stands (0 or 12). */
export interface LastBoundary {
  readonly versionstamp: Versionstamp;
  readonly sweptTo: Versionstamp | undefined;
}

export function encodeLastBoundary(
  userVersion: number,
  sweptTo: Versionstamp | undefined,
): VersionstampedBytes {
  const { bytes, offset } = encodeNewVersionstamp(userVersion);
  return { bytes: sweptTo === undefined ? bytes : concatBytes([bytes, sweptTo.bytes]), offset };
}

export function decodeLastBoundary(value: Uint8Array): LastBoundary {
  assert(value[0] === FORMAT, "The boundary record has a format of this version");
  const sweptTo = value.subarray(1 + VERSIONSTAMP_BYTES);
  return {
    versionstamp: Versionstamp.fromBytes(value.subarray(1, 1 + VERSIONSTAMP_BYTES)),
    sweptTo: sweptTo.length === 0 ? undefined : Versionstamp.fromBytes(sweptTo),
  };
}
