/** LMDB's tree within a transaction, and the application of mutations to it. */
import {
  type AtomicOperation,
  applyAtomic,
  type KeyValue,
  writeVersionstamp,
} from "../../kv/index.ts";
import { asBuffer, reading } from "./encoding.ts";
import {
  decodeShared,
  encodeShared,
  isShared,
  isSharedRecord,
  type LmdbDatabase,
  logKey,
  replaceRow,
  storedEnd,
  storedKey,
} from "./layout.ts";
import type { LogRecordWriter } from "./log-record.ts";
import type { MutationVisitor } from "./messages.ts";
import type { RedoWriter } from "./redo.ts";

/**
 * One in this number of versionstamped rows is inserted early in addition to every other row. The
 * pages are then nine tenths full, which leaves room for rows of different lengths.
 */
const EARLY_PERIOD = 16;

/**
 * LMDB's tree within a transaction. Also adds writes to the redo record, if there is one.
 *
 * When LMDB splits a page, both halves remain half full, and a page to which ascending keys are
 * added is never filled again. Therefore, half of the versionstamped rows are inserted late,
 * between the others: the pages of a `_bulk_docs` request are then nine tenths full instead of half
 * full (`bench/large/documents.mjs`).
 */
export class Tree {
  readonly #database: LmdbDatabase;
  readonly #redo: RedoWriter | undefined;
  #stampedCount = 0;
  /** Rows to be inserted late, by key. */
  readonly #late = new Map<string, { readonly key: Buffer; readonly value: Buffer }>();

  constructor(database: LmdbDatabase, redo: RedoWriter | undefined) {
    this.#database = database;
    this.#redo = redo;
  }

  get(key: Buffer): Uint8Array | undefined {
    return this.#database.get(key);
  }

  /** Reads all keys of the range in advance, so that the caller can modify rows while iterating. */
  keys(range: { readonly start: Buffer; readonly end: Buffer }): Uint8Array[] {
    this.putLate();
    return reading("lengths", () => [...this.#database.getKeys(range)]);
  }

  put(key: Buffer, value: Buffer): void {
    this.#database.putSync(key, value);
    this.#redo?.put(key, value);
  }

  /**
   * Inserts a row whose key contains the versionstamp, now or when `putLate` is called. Until then,
   * only its own transaction can write the key again, with `putStamped`. The last value counts.
   */
  putStamped(key: Buffer, value: Buffer): void {
    const number = this.#stampedCount++;
    const isEarly = number % 2 === 0 || number % EARLY_PERIOD === 1;
    const text = key.toString("latin1");
    if (isEarly && !this.#late.has(text)) this.put(key, value);
    else this.#late.set(text, { key, value });
  }

  /** Inserts the remaining versionstamped rows. */
  putLate(): void {
    for (const { key, value } of this.#late.values()) this.put(key, value);
    this.#late.clear();
  }

  /** Writes the log record of `version`. Must be called after all other writes of the version. */
  putLog(version: number, log: LogRecordWriter): void {
    this.#database.putSync(logKey(version), log.finish());
    this.#redo?.put(logKey(version), log.finishBeginning());
  }

  /** Removes the row with this key. Returns whether the row existed. */
  remove(key: Buffer): boolean {
    this.#redo?.remove(key);
    return this.#database.removeSync(key);
  }
}

/**
 * Applies one request's mutations within the LMDB transaction, and adds what they write to the log
 * record.
 */
export class Application implements MutationVisitor {
  readonly #tree: Tree;
  readonly #version: number;
  readonly #batchIndex: number;
  readonly #log: LogRecordWriter;

  constructor(tree: Tree, version: number, batchIndex: number, log: LogRecordWriter) {
    this.#tree = tree;
    this.#version = version;
    this.#batchIndex = batchIndex;
    this.#log = log;
  }

  set(key: Buffer, value: Buffer): void {
    this.#log.key(key);
    if (isShared(key)) this.#replaceShared(key, value);
    else this.#tree.put(storedKey(key), value);
  }

  clear(key: Buffer): void {
    this.#log.key(key);
    if (isShared(key)) this.#replaceShared(key, undefined);
    else this.#tree.remove(storedKey(key));
  }

  clearRange(begin: Buffer, end: Buffer): void {
    this.#log.range(begin, end);
    if (Buffer.compare(begin, end) >= 0) return;
    const range = { start: storedKey(begin), end: storedEnd(end) };
    for (const key of this.#tree.keys(range)) {
      if (isSharedRecord(key)) this.#clearShared(key, begin, end);
      else this.#tree.remove(storedKey(key));
    }
  }

  setVersionstampedKey(key: Buffer, offset: number, value: Buffer): void {
    writeVersionstamp(key, offset, this.#version, this.#batchIndex);
    if (isShared(key)) {
      this.set(key, value);
      return;
    }
    this.#log.key(key);
    this.#tree.putStamped(storedKey(key), value);
  }

  setVersionstampedValue(key: Buffer, value: Buffer, offset: number): void {
    writeVersionstamp(value, offset, this.#version, this.#batchIndex);
    this.set(key, value);
  }

  operate(operation: AtomicOperation, key: Buffer, operand: Buffer): void {
    const stored = isShared(key)
      ? this.#sharedRows(key).find((row) => Buffer.compare(row.key, key) === 0)?.value
      : this.#tree.get(storedKey(key));
    this.set(key, asBuffer(applyAtomic(operation, stored, operand)));
  }

  #sharedRows(sharing: Uint8Array): KeyValue[] {
    const record = this.#tree.get(storedKey(sharing));
    return record === undefined ? [] : decodeShared(sharing, record);
  }

  #replaceShared(key: Buffer, value: Buffer | undefined): void {
    this.#writeShared(key, replaceRow(this.#sharedRows(key), key, value));
  }

  #clearShared(sharing: Uint8Array, begin: Buffer, end: Buffer): void {
    const kept = this.#sharedRows(sharing).filter(
      ({ key }) => Buffer.compare(key, begin) < 0 || Buffer.compare(key, end) >= 0,
    );
    this.#writeShared(sharing, kept);
  }

  #writeShared(sharing: Uint8Array, rows: readonly KeyValue[]): void {
    const stored = storedKey(sharing);
    if (rows.length === 0) this.#tree.remove(stored);
    else this.#tree.put(stored, encodeShared(rows));
  }
}
