/**
 * Lets a small commit wait for the disk once. LMDB writes the pages of a transaction and waits for the disk, then
 * writes its root and waits again, because the pages cannot be found without a root on the disk. Here the first wait
 * also covers a record of the transaction's changes, in the same file. The root is written without a wait, and is on
 * the disk with the next commit. A machine that fails in between loses only the last root, and the process that opens
 * the store next applies the record.
 *
 * LMDB keeps its roots in its first two pages, and uses the first few hundred bytes of each. The records take turns in
 * the rest of these pages, because the last one must stay whole while the next is written.
 *
 * docs/decisions/0121-one-wait-for-the-disk.md
 */
import { closeSync, fdatasyncSync, openSync, readSync, writeSync } from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { assert } from "../../base/index.ts";
import { DATA_FILE, type LmdbDatabase, PAGE_BYTES, readLastVersion } from "./layout.ts";

/** Behind the root, and behind the place of a third one that some who use LMDB have. */
const SLOT_OFFSET = PAGE_BYTES / 2 + 512;
const SLOT_BYTES = PAGE_BYTES - SLOT_OFFSET;
const SLOT_COUNT = 2;

/** The checksum of what follows; how many bytes of rows there are; the version; the rows. */
const CHECKSUM_BYTES = 4;
const ROWS_LENGTH_OFFSET = CHECKSUM_BYTES;
const VERSION_OFFSET = ROWS_LENGTH_OFFSET + 4;
const HEAD_BYTES = VERSION_OFFSET + 8;

/** Of each row: the length of the key, that of the value. */
const ROW_HEAD_BYTES = 6;
const REMOVED = 0xffff_ffff;

/** Takes down what one transaction of LMDB writes, as far as it fits into a slot. */
export class RedoWriter {
  readonly #file: number;
  readonly #record = Buffer.alloc(SLOT_BYTES);
  #length = HEAD_BYTES;
  #isWhole = true;

  private constructor(file: number) {
    this.#file = file;
  }

  /** Undefined where the pages are not those that this program makes. */
  static open(database: LmdbDatabase, directory: string): RedoWriter | undefined {
    const file = openSlots(database, directory);
    return file === undefined ? undefined : new RedoWriter(file);
  }

  /** For the next transaction. */
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
   * At the end of the transaction that makes `version`, inside it: the record will be on the disk when its pages are. False,
   * and nothing is done, when the transaction wrote more than a slot holds.
   */
  save(version: number): boolean {
    if (!this.#isWhole) return false;
    this.#record.writeBigUInt64LE(BigInt(version), VERSION_OFFSET);
    this.#record.writeUInt32LE(this.#length - HEAD_BYTES, ROWS_LENGTH_OFFSET);
    const record = this.#record.subarray(0, this.#length);
    record.writeUInt32LE(checksum(record));
    writeWhole(this.#file, record, slotOffset(version));
    return true;
  }

  /** Makes sure that the record of `version` is never applied, not even after a failure of the machine. */
  erase(version: number): void {
    writeWhole(this.#file, Buffer.alloc(HEAD_BYTES), slotOffset(version));
    fdatasyncSync(this.#file);
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

/** Carries out what the last commit before a failure of the machine wrote, if its root did not reach the disk. */
export function redoLostCommit(database: LmdbDatabase, directory: string): void {
  const file = openSlots(database, directory);
  if (file === undefined) return;
  try {
    const lostRecord = (): Buffer | undefined => readSlot(file, readLastVersion(database) + 1);
    // Without the lock first: there is hardly ever one.
    if (lostRecord() === undefined) return;
    database.transactionSync(() => {
      const record = lostRecord();
      if (record !== undefined) redo(database, record);
    });
  } finally {
    closeSync(file);
  }
}

function writeWhole(file: number, bytes: Buffer, offset: number): void {
  const byteCount = writeSync(file, bytes, 0, bytes.length, offset);
  assert(byteCount === bytes.length, "A write in place is whole");
}

function openSlots(database: LmdbDatabase, directory: string): number | undefined {
  const { pageSize } = database.getStats() as { readonly pageSize: number };
  return pageSize === PAGE_BYTES ? openSync(join(directory, DATA_FILE), "r+") : undefined;
}

/** The record of `version`, if there is a whole one. */
function readSlot(file: number, version: number): Buffer | undefined {
  const bytes = Buffer.alloc(SLOT_BYTES);
  readSync(file, bytes, 0, SLOT_BYTES, slotOffset(version));
  if (bytes.readBigUInt64LE(VERSION_OFFSET) !== BigInt(version)) return undefined;
  const record = bytes.subarray(0, HEAD_BYTES + bytes.readUInt32LE(ROWS_LENGTH_OFFSET));
  return checksum(record) === record.readUInt32LE() ? record : undefined;
}

function redo(database: LmdbDatabase, record: Buffer): void {
  for (let at = HEAD_BYTES; at < record.length; ) {
    const keyEnd = at + ROW_HEAD_BYTES + record.readUInt16LE(at);
    const valueLength = record.readUInt32LE(at + 2);
    const key = record.subarray(at + ROW_HEAD_BYTES, keyEnd);
    at = keyEnd;
    if (valueLength === REMOVED) {
      database.removeSync(key);
    } else {
      at += valueLength;
      database.putSync(key, record.subarray(keyEnd, at));
    }
  }
}

function slotOffset(version: number): number {
  return (version % SLOT_COUNT) * PAGE_BYTES + SLOT_OFFSET;
}

function checksum(record: Buffer): number {
  return crc32(record.subarray(CHECKSUM_BYTES));
}
