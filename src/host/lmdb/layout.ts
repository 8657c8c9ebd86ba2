/**
 * Layout of the store in LMDB's single tree. `LMDB_KEY_SHAPES` lists the keys.
 *
 * LMDB limits keys to 4,026 bytes, while the store allows 10,000. Keys with the same first 4,000
 * bytes share a record, which preserves the key order.
 */
import type { RootDatabase } from "lmdb";
import { compareBytes, equalBytes } from "../../base/index.ts";
import type { Key, KeyShape, KeyValue, Value } from "../../kv/index.ts";

export type LmdbDatabase = RootDatabase<Uint8Array, Buffer>;
type ReadOptions = Parameters<LmdbDatabase["get"]>[1];

export const FORMAT_VERSION = 1;

export const LMDB_KEY_SHAPES: readonly KeyShape[] = [
  {
    key: '00 "f"',
    value: "format version, one byte",
    note: "a store with another format version is not opened",
  },
  {
    key: '00 "l" version',
    value:
      "time, a random number chosen by the committer, and the keys and ranges that the version wrote",
    note: "the commit log: conflicts and watches of all processes; cleared after some 10 s",
  },
  {
    key: '00 "v"',
    value: "the last version, eight bytes",
    note: "incremented by each group commit",
  },
  { key: "01 key", value: "the value", note: "a key shorter than 4,000 bytes" },
  {
    key: "01 key[0..4000]",
    value: "for each key, the rest of the key and the value",
    note: "all keys of at least 4,000 bytes that begin with these, in order",
  },
];

/** Page size, fixed when the store is created. Half this size would limit keys to 1,978 bytes. */
export const PAGE_BYTES = 8_192;

/** LMDB's name for its file. */
export const DATA_FILE = "data.mdb";

/** File that is written to after each commit, to wake processes with watches. */
export const BELL_FILE = "bell";

const SYSTEM = 0x00;
const DATA = 0x01;

export const FORMAT_KEY: Buffer = Buffer.from([SYSTEM, 0x66]);
export const VERSION_KEY: Buffer = Buffer.from([SYSTEM, 0x76]);

/** Minimum length of keys that are stored in the shared record of their prefix. */
const SHARED_BYTES = 4_000;

export function logKey(version: number): Buffer {
  const key = Buffer.allocUnsafe(10);
  key[0] = SYSTEM;
  key[1] = 0x6c;
  key.writeBigUInt64BE(BigInt(version), 2);
  return key;
}

/**
 * Returns the version in a key of the log. `key` is in the form returned by reads, without the
 * first byte.
 */
export function logKeyVersion(key: Uint8Array): number {
  return Number(new DataView(key.buffer, key.byteOffset + 1, 8).getBigUint64(0));
}

export function encodeVersion(version: number): Buffer {
  const bytes = Buffer.allocUnsafe(8);
  bytes.writeBigUInt64BE(BigInt(version));
  return bytes;
}

/** Returns the last committed version, or 0 if nothing has been committed. */
export function readLastVersion(database: LmdbDatabase, options?: ReadOptions): number {
  let version = 0;
  for (const byte of database.get(VERSION_KEY, options) ?? []) version = version * 256 + byte;
  return version;
}

/** Returns the LMDB key of the row with this key, or of the shared record that contains the row. */
export function storedKey(key: Key): Buffer {
  const length = Math.min(key.length, SHARED_BYTES);
  const stored = Buffer.allocUnsafe(length + 1);
  stored[0] = DATA;
  stored.set(length === key.length ? key : key.subarray(0, length), 1);
  return stored;
}

/**
 * Whether the stored key belongs to a row of the store rather than to a record of the layout.
 * `stored` begins with the byte that `storedKey` adds.
 */
export function isDataKey(stored: Buffer): boolean {
  return stored[0] === DATA;
}

/** Returns the position after all records that can contain keys before `end`. */
export function storedEnd(end: Key): Buffer {
  if (end.length < SHARED_BYTES) return storedKey(end);
  // The zero byte makes the range include the shared record of `end`, which can also have keys
  // before `end`.
  return Buffer.concat([storedKey(end), Buffer.from([0])]);
}

export function isShared(key: Key): boolean {
  return key.length >= SHARED_BYTES;
}

/**
 * Whether `key` belongs to a shared record. `key` is in the form returned by reads, without the
 * first byte.
 */
export function isSharedRecord(key: Uint8Array): boolean {
  return key.length === SHARED_BYTES;
}

/**
 * Decodes the rows of a shared record, in order. `sharing` begins with the prefix that the keys of
 * the rows have in common.
 */
export function decodeShared(sharing: Uint8Array, record: Uint8Array): KeyValue[] {
  const rows: KeyValue[] = [];
  const view = new DataView(record.buffer, record.byteOffset, record.byteLength);
  for (let at = 0; at < record.length; ) {
    const restLength = view.getUint16(at);
    const valueLength = view.getUint32(at + 2);
    const key = new Uint8Array(SHARED_BYTES + restLength);
    key.set(sharing.subarray(0, SHARED_BYTES));
    key.set(record.subarray(at + 6, at + 6 + restLength), SHARED_BYTES);
    at += 6 + restLength;
    rows.push({ key, value: new Uint8Array(record.subarray(at, at + valueLength)) });
    at += valueLength;
  }
  return rows;
}

export function encodeShared(rows: readonly KeyValue[]): Buffer {
  const parts: Uint8Array[] = [];
  for (const { key, value } of rows) {
    const head = Buffer.allocUnsafe(6);
    head.writeUInt16BE(key.length - SHARED_BYTES, 0);
    head.writeUInt32BE(value.length, 2);
    parts.push(head, key.subarray(SHARED_BYTES), value);
  }
  return Buffer.concat(parts);
}

/** Returns the rows with `key` set to `value`. If `value` is undefined, removes `key`. */
export function replaceRow(
  rows: readonly KeyValue[],
  key: Key,
  value: Value | undefined,
): KeyValue[] {
  const kept = rows.filter((row) => !equalBytes(row.key, key));
  if (value === undefined) return kept;
  const at = kept.findIndex((row) => compareBytes(row.key, key) > 0);
  kept.splice(at < 0 ? kept.length : at, 0, { key, value });
  return kept;
}
