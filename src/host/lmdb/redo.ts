/**
 * Lets a small commit wait for only one sync. LMDB writes a transaction's pages, syncs, writes its
 * root (the meta page) and syncs again, because pages cannot be found without a durable root. With
 * a redo record, the first sync also covers this record, which is in the same file. The root is
 * written without a sync and becomes durable with the next commit. A crash in between loses only
 * the last root, and the next process to open the store applies the record.
 *
 * LMDB keeps its roots in the first two pages, using a few hundred bytes of each. Records alternate
 * between the unused parts of these pages, because the last record must stay intact while the next
 * record is written.
 *
 * Redo records require that the next sync makes a root durable. If a sync fails, the system might
 * treat the data as written and never write it. Therefore, before a process writes the next
 * version, it rewrites the roots if the head of a record shows that this version has been attempted
 * before.
 *
 * Commit rates relative to raw LMDB (`node bench/kv/commits.mjs`, medians): for one writer 1.9
 * (range 0.9 to 4.0), and 0.7 (0.3 to 1.1) without redo records. For 64 writers, which share their
 * syncs, 0.38 to 0.56, and 0.28 to 0.40 without redo records. A PUT takes 0.7 times as long as
 * without redo records (`bench/databases/single-writes.mjs`, on a disk that syncs in milliseconds).
 *
 * docs/decisions/0121-one-wait-for-the-disk.md
 */
import { closeSync, fdatasyncSync, openSync, readSync, writeSync } from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { ABORT } from "lmdb";
import { assert } from "../../base/index.ts";
import {
  DATA_FILE,
  isDataKey,
  type LmdbDatabase,
  logKey,
  PAGE_BYTES,
  readLastVersion,
} from "./layout.ts";
import { completeLogRecord } from "./log-record.ts";

/**
 * Upper bound of the bytes that LMDB uses in each root page. Disks write this many bytes
 * atomically.
 */
const ROOT_BYTES = 512;

/**
 * Offset of a slot in one of LMDB's meta pages: after the bytes that LMDB uses, and after those
 * where some variants of LMDB store another root.
 */
const SLOT_OFFSET = PAGE_BYTES / 2 + 512;
const SLOT_BYTES = PAGE_BYTES - SLOT_OFFSET;
const SLOT_COUNT = 2;

/** Layout: checksum, length of the rows, version, rows. The log's row is after the other rows. */
const CHECKSUM_BYTES = 4;
const ROWS_LENGTH_OFFSET = CHECKSUM_BYTES;
const VERSION_OFFSET = ROWS_LENGTH_OFFSET + 4;
const HEAD_BYTES = VERSION_OFFSET + 8;

/** Size of a row's head, which contains the lengths of key and value. */
const ROW_HEAD_BYTES = 6;
const REMOVED = 0xffff_ffff;

/**
 * Flag in the length field: the log row in the record lacks those keys that other rows of the
 * record contain. Older versions reject the length as invalid.
 */
const LOG_IS_CUT = 0x8000_0000;

/** Records the writes of an LMDB transaction while they fit into a slot. */
export class RedoWriter {
  readonly #file: number;
  readonly #record = Buffer.alloc(SLOT_BYTES);
  #length = HEAD_BYTES;
  #isWhole = true;

  private constructor(file: number) {
    this.#file = file;
  }

  /** Opens a writer. Returns `undefined` for stores with a different page layout. */
  static open(database: LmdbDatabase, directory: string): RedoWriter | undefined {
    const file = openSlots(database, directory);
    return file === undefined ? undefined : new RedoWriter(file);
  }

  /** Starts the next transaction. */
  begin(): void {
    this.#length = HEAD_BYTES;
    this.#isWhole = true;
  }

  put(key: Uint8Array, value: Uint8Array): void {
    if (!this.#startRow(key, value.length, value.length)) return;
    this.#record.set(value, this.#length);
    this.#length += value.length;
  }

  remove(key: Uint8Array): void {
    this.#startRow(key, 0, REMOVED);
  }

  /**
   * Writes the record at the end of the transaction for `version`. The record becomes durable with
   * the transaction's pages. Returns false, without any effect, if the writes do not fit into a
   * slot.
   */
  save(version: number): boolean {
    if (!this.#isWhole) return false;
    this.#record.writeBigUInt64LE(BigInt(version), VERSION_OFFSET);
    this.#record.writeUInt32LE(LOG_IS_CUT + this.#length - HEAD_BYTES, ROWS_LENGTH_OFFSET);
    const record = this.#record.subarray(0, this.#length);
    record.writeUInt32LE(checksum(record));
    writeWhole(this.#file, record, slotOffset(version));
    return true;
  }

  /**
   * Writes only the head of a record: if the transaction does not fit into a record, or to prevent
   * a replay.
   */
  announce(version: number): void {
    const head = Buffer.alloc(HEAD_BYTES);
    head.writeBigUInt64LE(BigInt(version), VERSION_OFFSET);
    writeWhole(this.#file, head, slotOffset(version));
  }

  /**
   * Handles a failed attempt to write `version`, if its record exists: syncs the current roots, and
   * overwrites the record so that it is never replayed. Must be called in an LMDB transaction
   * without writes. Throws if the disk fails; nothing must be committed after that.
   */
  settle(version: number): void {
    if (readHead(this.#file, version).version !== BigInt(version)) return;
    saveRoots(this.#file, () => this.announce(version));
    // Needs no sync: if a crash leaves the old head in place, the failed attempt is handled again.
    writeWhole(this.#file, Buffer.alloc(HEAD_BYTES), slotOffset(version));
  }

  close(): void {
    closeSync(this.#file);
  }

  #startRow(key: Uint8Array, valueBytes: number, valueLength: number): boolean {
    this.#isWhole &&= this.#length + ROW_HEAD_BYTES + key.length + valueBytes <= SLOT_BYTES;
    if (!this.#isWhole) return false;
    this.#length = this.#record.writeUInt16LE(key.length, this.#length);
    this.#length = this.#record.writeUInt32LE(valueLength, this.#length);
    this.#record.set(key, this.#length);
    this.#length += key.length;
    return true;
  }
}

/**
 * After a crash, applies commits whose roots were not durable. After a failed sync there can be two
 * of them: the last acknowledged commit, and the next one, whose record was already written.
 */
export function redoLostCommits(database: LmdbDatabase, directory: string): void {
  const file = openSlots(database, directory);
  if (file === undefined) return;
  try {
    const lostRecord = (): LostRecord | undefined => readSlot(file, readLastVersion(database) + 1);
    // Checks without the lock first, because there is rarely a record.
    if (lostRecord() === undefined) return;
    database.transactionSync(() => {
      saveRoots(file, () => {});
      return ABORT;
    });
    for (let count = 0; count < SLOT_COUNT; count++) {
      database.transactionSync(() => {
        const record = lostRecord();
        if (record !== undefined) redo(database, record);
      });
    }
  } finally {
    closeSync(file);
  }
}

/**
 * Calls `write`, and syncs what it has written together with the roots. Throws if the disk fails.
 */
function saveRoots(file: number, write: () => void): void {
  try {
    writeRootsAgain(file, write);
  } catch {
    // The system reports a failed sync once per open file, so the failure might concern an earlier
    // sync by another process. In any case the writes are repeated, because they might be lost.
    writeRootsAgain(file, write);
  }
}

function writeRootsAgain(file: number, write: () => void): void {
  write();
  const root = Buffer.alloc(ROOT_BYTES);
  for (const offset of [0, PAGE_BYTES]) {
    readSync(file, root, 0, ROOT_BYTES, offset);
    writeWhole(file, root, offset);
  }
  fdatasyncSync(file);
}

function writeWhole(file: number, bytes: Buffer, offset: number): void {
  const byteCount = writeSync(file, bytes, 0, bytes.length, offset);
  assert(byteCount === bytes.length, "A write in place must be complete");
}

function openSlots(database: LmdbDatabase, directory: string): number | undefined {
  const { pageSize } = database.getStats() as { readonly pageSize: number };
  return pageSize === PAGE_BYTES ? openSync(join(directory, DATA_FILE), "r+") : undefined;
}

interface Head {
  readonly version: bigint;
  readonly rowsLength: number;
  readonly isLogCut: boolean;
}

interface LostRecord {
  readonly version: number;
  readonly rows: Buffer;
  readonly isLogCut: boolean;
}

/** Reads the head in the slot of `version`. The head can belong to another version. */
function readHead(file: number, version: number): Head {
  const head = Buffer.alloc(HEAD_BYTES);
  readSync(file, head, 0, HEAD_BYTES, slotOffset(version));
  const length = head.readUInt32LE(ROWS_LENGTH_OFFSET);
  const isLogCut = length >= LOG_IS_CUT;
  return {
    version: head.readBigUInt64LE(VERSION_OFFSET),
    rowsLength: isLogCut ? length - LOG_IS_CUT : length,
    isLogCut,
  };
}

/** Returns the record of `version`, if it is complete. */
function readSlot(file: number, version: number): LostRecord | undefined {
  const head = readHead(file, version);
  if (head.version !== BigInt(version) || head.rowsLength > SLOT_BYTES - HEAD_BYTES)
    return undefined;
  const record = Buffer.alloc(HEAD_BYTES + head.rowsLength);
  readSync(file, record, 0, record.length, slotOffset(version));
  if (checksum(record) !== record.readUInt32LE()) return undefined;
  return { version, rows: record.subarray(HEAD_BYTES), isLogCut: head.isLogCut };
}

function redo(database: LmdbDatabase, { version, rows, isLogCut }: LostRecord): void {
  const log = logKey(version);
  const keys: Buffer[] = [];
  for (const { key, value } of rowsIn(rows)) {
    if (isDataKey(key)) keys.push(key.subarray(1));
    if (value === undefined) database.removeSync(key);
    else if (isLogCut && key.equals(log)) database.putSync(key, completeLogRecord(value, keys));
    else database.putSync(key, value);
  }
}

/** `value` is undefined for a removed row. */
function* rowsIn(rows: Buffer): Iterable<{ readonly key: Buffer; readonly value?: Buffer }> {
  for (let at = 0; at < rows.length; ) {
    const keyEnd = at + ROW_HEAD_BYTES + rows.readUInt16LE(at);
    const valueLength = rows.readUInt32LE(at + 2);
    const key = rows.subarray(at + ROW_HEAD_BYTES, keyEnd);
    at = valueLength === REMOVED ? keyEnd : keyEnd + valueLength;
    yield valueLength === REMOVED ? { key } : { key, value: rows.subarray(keyEnd, at) };
  }
}

function slotOffset(version: number): number {
  return (version % SLOT_COUNT) * PAGE_BYTES + SLOT_OFFSET;
}

function checksum(record: Buffer): number {
  return crc32(record.subarray(CHECKSUM_BYTES));
}
