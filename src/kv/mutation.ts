/**
 * The changes that a transaction sends to the store, and the effect of atomic operations on a
 * stored value.
 */
import { assert, compareBytes } from "../base/index.ts";
import { copyBytes } from "./key-bytes.ts";
import type { Value } from "./transaction.ts";
import type { VersionstampedBytes } from "./versionstamp.ts";

export type AtomicOperation = "add" | "max" | "byteMin";

/** A mutation. Keys are strings with one character per byte, for sorting, comparing and lookups. */
export type Mutation =
  | { readonly kind: "set"; readonly key: string; readonly value: Value }
  | { readonly kind: "clear"; readonly key: string }
  | { readonly kind: "clearRange"; readonly begin: string; readonly end: string }
  | { readonly kind: AtomicOperation; readonly key: string; readonly operand: Value }
  | {
      readonly kind: "setVersionstampedKey";
      readonly key: string;
      /** Offset in the key at which the commit writes its ten bytes. */
      readonly offset: number;
      readonly value: Value;
    }
  | {
      readonly kind: "setVersionstampedValue";
      readonly key: string;
      readonly value: VersionstampedBytes;
    };

/** A key, or all keys from `begin` (inclusive) to `end` (exclusive), as key texts. */
export interface TextInterval {
  readonly begin: string;
  /** End of the interval, exclusive; absent for the single key `begin`. */
  readonly end: string | undefined;
}

/**
 * Everything needed to check and apply a commit. Range clears precede writes to the same keys. If
 * the store has a pool, the memory of the values can be reused once the call that receives the
 * request has returned.
 */
export interface CommitRequest {
  /**
   * Version at which the transaction read. Absent if it read nothing, and therefore cannot
   * conflict.
   */
  readonly readVersion: number | undefined;
  readonly reads: readonly TextInterval[];
  /** Additional write conflict ranges without a mutation. */
  readonly writes: readonly TextInterval[];
  readonly mutations: readonly Mutation[];
}

/**
 * Returns the value after `operation`. As in FoundationDB, the result has the length of `operand`.
 */
export function applyAtomic(
  operation: AtomicOperation,
  stored: Value | undefined,
  operand: Value,
): Value {
  if (operation === "byteMin") {
    return stored !== undefined && compareBytes(stored, operand) < 0 ? stored : operand;
  }
  if (stored === undefined || stored.length === 0) return operand;
  return operation === "add" ? addLittleEndian(stored, operand) : maxLittleEndian(stored, operand);
}

function addLittleEndian(stored: Value, operand: Value): Value {
  const sum = new Uint8Array(operand.length);
  let carry = 0;
  for (let index = 0; index < sum.length; index++) {
    carry += (stored[index] ?? 0) + (operand[index] as number);
    sum[index] = carry & 0xff;
    carry >>= 8;
  }
  return sum;
}

function maxLittleEndian(stored: Value, operand: Value): Value {
  for (let index = operand.length - 1; index >= 0; index--) {
    const difference = (operand[index] as number) - (stored[index] ?? 0);
    if (difference > 0) return operand;
    if (difference < 0) {
      const kept = new Uint8Array(operand.length);
      kept.set(stored.subarray(0, operand.length));
      return kept;
    }
  }
  return operand;
}

const int64Bytes = new Uint8Array(8);
const int64View = new DataView(int64Bytes.buffer);

export function littleEndian64(value: bigint): Value {
  int64View.setBigInt64(0, value, true);
  return int64Bytes.slice();
}

/** Decodes the sum of atomic additions; 0 if the key has no value. */
export function decodeCounter(value: Value | undefined): number {
  if (value === undefined) return 0;
  assert(value.length === 8, "A counter must have 64 bits");
  return Number(new DataView(value.buffer, value.byteOffset, 8).getBigInt64(0, true));
}

/**
 * Completes a versionstamp placeholder with the ten bytes of a commit: eight for the version, two
 * for its position in the batch.
 */
export function completeVersionstamped(
  stamped: VersionstampedBytes,
  version: number,
  batchIndex: number,
): Uint8Array {
  const bytes = copyBytes(stamped.bytes);
  writeVersionstamp(bytes, stamped.offset, version, batchIndex);
  return bytes;
}

export function writeVersionstamp(
  bytes: Uint8Array,
  offset: number,
  version: number,
  batchIndex: number,
): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  view.setBigUint64(offset, BigInt(version));
  view.setUint16(offset + 8, batchIndex);
}
