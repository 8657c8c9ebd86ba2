/** FoundationDB's limits, applied on every engine, so that code behaves the same on all engines. */
import { assert, compareBytes } from "../base/index.ts";
import { KeyValueError } from "./kv-error.ts";
import type { Key, Value } from "./transaction.ts";
import type { VersionstampedBytes } from "./versionstamp.ts";

export const KEY_BYTES_MAX = 10_000;
export const VALUE_BYTES_MAX = 100_000;
/** Maximum size of a transaction: keys and values written, and bounds of conflict ranges. */
export const TRANSACTION_BYTES_MAX = 10_000_000;
/** Number of 16-bit user versions. */
const USER_VERSION_COUNT_MAX = 65_536;
/**
 * Maximum number of keys that one `clearRange` is allowed to remove. The LMDB and memory engines
 * remove keys one by one. LMDB does this under the lock that all writers of all processes need.
 * Larger ranges require `removeInBackground`.
 */
export const CLEARED_KEYS_MAX = 1_000;
/**
 * Maximum difference between the number of keys that a transaction removes, individually or as
 * ranges, and the number that it writes. The reason is the same as for `CLEARED_KEYS_MAX`.
 */
export const NET_CLEARED_KEYS_MAX = 10_000;
/** Maximum age of a read version. */
export const READ_VERSION_AGE_MS_MAX = 5_000;

/** First byte of FoundationDB's system keys, which our keys must not use. */
const SYSTEM_BYTE = 0xff;

export function checkKey(key: Key): void {
  if (key.length > KEY_BYTES_MAX) {
    throw new KeyValueError("KV_KEY_TOO_LARGE", { byteCount: key.length, max: KEY_BYTES_MAX });
  }
  assert(key[0] !== SYSTEM_BYTE, "A key must not begin with 0xff");
}

/** Checks a range bound, which can be after the last key and one byte longer than a key. */
export function checkBound(key: Key): void {
  if (key.length > KEY_BYTES_MAX + 1) {
    throw new KeyValueError("KV_KEY_TOO_LARGE", { byteCount: key.length, max: KEY_BYTES_MAX });
  }
  assert(
    key[0] !== SYSTEM_BYTE || key.length === 1,
    "A range bound must not be above the single byte 0xff",
  );
}

export function checkValue(value: Value): void {
  if (value.length > VALUE_BYTES_MAX) {
    throw new KeyValueError("KV_VALUE_TOO_LARGE", {
      byteCount: value.length,
      max: VALUE_BYTES_MAX,
    });
  }
}

/**
 * Throws if a transaction requests too many versionstamps. `userVersion` is the number of the next
 * one, counted from 0.
 */
export function checkUserVersion(userVersion: number): void {
  if (userVersion >= USER_VERSION_COUNT_MAX) {
    throw new KeyValueError("KV_TOO_LARGE", {
      versionstampCount: userVersion + 1,
      max: USER_VERSION_COUNT_MAX,
    });
  }
}

export function checkRange(begin: Key, end: Key): void {
  checkBound(begin);
  checkBound(end);
  assert(compareBytes(begin, end) <= 0, "A range must not end before it begins");
}

export function checkStamp({ bytes, offset }: VersionstampedBytes): void {
  assert(
    offset >= 0 && offset + 10 <= bytes.length,
    "The offset of a versionstamp must be within the bytes",
  );
}
