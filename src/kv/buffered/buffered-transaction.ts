/**
 * A transaction over a store whose snapshots are read synchronously. Writes are buffered, reads see
 * the buffer, and the read set is recorded for conflict detection at commit. Shared by the LMDB and
 * memory engines; FoundationDB's client provides these features itself.
 */
import { assert, type Clock, compareBytes, type Page } from "../../base/index.ts";
import type { CommitEffect, EngineTransaction } from "../engine.ts";
import { copyBytes, keyAfter, keyText } from "../key-bytes.ts";
import type { KeySelector } from "../key-selector.ts";
import { KeyValueError } from "../kv-error.ts";
import {
  checkBound,
  checkKey,
  checkRange,
  checkStamp,
  checkUserVersion,
  checkValue,
  READ_VERSION_AGE_MS_MAX,
  TRANSACTION_BYTES_MAX,
} from "../limits.ts";
import { type CommitRequest, littleEndian64, type TextInterval } from "../mutation.ts";
import { PagedRange } from "../paged-range.ts";
import type {
  Commit,
  Key,
  KeyRange,
  KeyValue,
  RangeOptions,
  ReadTransaction,
  SetOptions,
  Transaction,
  Value,
  Watch,
} from "../transaction.ts";
import type { VersionstampedBytes } from "../versionstamp.ts";
import { type ReadView, readPage, resolveSelector, type StoreSnapshot } from "./read-view.ts";
import type { SlabPool } from "./value-arena.ts";
import { valueAfter, WriteBuffer } from "./write-buffer.ts";

/**
 * Number of bytes copied before yielding to the event loop. Copying them takes some milliseconds if
 * memory has to be allocated.
 */
const TURN_BYTES = 1_000_000;

/** The functions of a store that a transaction needs. */
export interface BufferedStore {
  readonly clock: Clock;
  /** Awaited before the first read, to inject delays and faults. */
  readonly beforeSnapshot?: () => Promise<void>;
  /**
   * Current event-loop turn, for a store with synchronous reads. If the turn is over, the
   * transaction yields before its first row and before each page of a range.
   */
  readonly turn?: { readonly isOver: boolean };
  /**
   * Pool of memory for values. Set only for a store whose `commit` has copied the values by the
   * time it returns.
   */
  readonly pool?: SlabPool;
  snapshot(): StoreSnapshot;
  /** Detects conflicts and applies the writes. Not called for an empty transaction. */
  commit(request: CommitRequest): Promise<StoreCommit>;
  /** Returns a watch for the first change after `version`. */
  watch(key: Key, version: number): Watch;
}

export interface StoreCommit extends Commit {
  readonly version: number;
}

export class BufferedTransaction implements EngineTransaction, Transaction {
  readonly effects: CommitEffect[] = [];
  readonly #store: BufferedStore;
  #buffer: WriteBuffer;
  #reads: TextInterval[] = [];
  #writes: TextInterval[] = [];
  readonly #watches: PendingWatch[] = [];
  #conflictByteCount = 0;
  #userVersion = 0;
  #snapshotReads: ReadTransaction | undefined;
  #view: ReadView | undefined;
  #opening: Promise<void> | undefined;
  #takenAtMs = 0;
  #ended = false;

  constructor(store: BufferedStore) {
    this.#store = store;
    this.#buffer = new WriteBuffer(store.pool);
  }

  get transaction(): Transaction {
    return this;
  }

  get hasWrites(): boolean {
    return !this.#buffer.isEmpty || this.#writes.length > 0;
  }

  get snapshot(): ReadTransaction {
    this.#snapshotReads ??= new SnapshotReads(this);
    return this.#snapshotReads;
  }

  // Reads

  get(key: Key): Promise<Value | undefined> {
    return this.read(key, true);
  }

  getMany(keys: readonly Key[]): Promise<(Value | undefined)[]> {
    return this.readMany(keys, true);
  }

  getKey(selector: KeySelector): Promise<Key> {
    return this.readKey(selector, true);
  }

  getRange(range: KeyRange, options: RangeOptions = {}): AsyncIterable<KeyValue> {
    return new PagedRange(this, range, options);
  }

  getRangePage(range: KeyRange, options: RangeOptions = {}): Promise<Page<KeyValue>> {
    return this.readRange(range, options, true);
  }

  async readVersion(): Promise<bigint> {
    const view = this.#readable() ?? (await this.#open());
    return BigInt(view.snapshot.version);
  }

  async read(key: Key, remembered: boolean): Promise<Value | undefined> {
    checkKey(key);
    return this.#valueIn(this.#readable() ?? (await this.#open()), key, remembered);
  }

  async readMany(keys: readonly Key[], remembered: boolean): Promise<(Value | undefined)[]> {
    for (const key of keys) checkKey(key);
    const view = this.#readable() ?? (await this.#open());
    const values: (Value | undefined)[] = [];
    let byteCount = 0;
    for (const key of keys) {
      if (byteCount >= TURN_BYTES) {
        byteCount = 0;
        await this.#store.clock.sleep(0);
        this.#readable();
      }
      const value = this.#valueIn(view, key, remembered);
      values.push(value);
      byteCount += value?.length ?? 0;
    }
    return values;
  }

  #valueIn(view: ReadView, key: Key, remembered: boolean): Value | undefined {
    if (!remembered && this.#buffer.isEmpty) return view.snapshot.get(key);
    const text = keyText(key);
    const write = this.#buffer.isEmpty ? undefined : this.#buffer.find(text);
    if (write === "cleared") return undefined;
    if (write !== undefined && write.kind !== "operations")
      return ownCopy(valueAfter(write, undefined));
    if (remembered) this.#remember(text, undefined);
    const stored = view.snapshot.get(key);
    return write === undefined ? stored : ownCopy(valueAfter(write, stored));
  }

  async readKey(selector: KeySelector, remembered: boolean): Promise<Key> {
    checkBound(selector.key);
    const view = this.#readable() ?? (await this.#open());
    const key = resolveSelector(view, selector);
    if (remembered) {
      const from = compareBytes(key, selector.key) < 0 ? key : selector.key;
      const to = from === key ? selector.key : key;
      this.#remember(keyText(from), textAfter(to));
    }
    return key;
  }

  async readRange(
    range: KeyRange,
    options: RangeOptions,
    remembered: boolean,
  ): Promise<Page<KeyValue>> {
    if (this.#view !== undefined && this.#store.turn?.isOver) await this.#giveWay();
    const view = this.#readable() ?? (await this.#open());
    const begin = isKey(range.begin) ? range.begin : await this.#bound(range.begin, remembered);
    const end = isKey(range.end) ? range.end : await this.#bound(range.end, remembered);
    checkBound(begin);
    checkBound(end);
    const page = readPage(view, begin, end, options);
    if (remembered && compareBytes(begin, end) < 0) {
      const last = page.entries[page.entries.length - 1];
      // If the page ended early, adds a conflict range only for the part that was read.
      if (page.stoppedBy === "exhausted" || last === undefined) this.#rememberRange(begin, end);
      else if (options.reverse) this.#rememberRange(last.key, end);
      else this.#remember(keyText(begin), textAfter(last.key));
    }
    return page;
  }

  // Writes

  set(key: Key, value: Value, { isConstant = false }: SetOptions = {}): void {
    this.#checkWrite(key);
    checkValue(value);
    this.#buffer.set(key, value, isConstant);
  }

  clear(key: Key): void {
    this.#checkWrite(key);
    this.#buffer.clear(key);
  }

  clearRange({ begin, end }: { readonly begin: Key; readonly end: Key }): void {
    this.#assertOpen();
    checkRange(begin, end);
    this.#buffer.clearRange(begin, end);
  }

  add(key: Key, delta: bigint): void {
    this.#checkWrite(key);
    this.#buffer.operate("add", key, littleEndian64(delta));
  }

  max(key: Key, value: Value): void {
    this.#checkWrite(key);
    checkValue(value);
    this.#buffer.operate("max", key, value);
  }

  byteMin(key: Key, value: Value): void {
    this.#checkWrite(key);
    checkValue(value);
    this.#buffer.operate("byteMin", key, value);
  }

  setVersionstampedKey(key: VersionstampedBytes, value: Value): void {
    this.#checkWrite(key.bytes);
    checkValue(value);
    checkStamp(key);
    this.#buffer.setStampedKey(key, value, this.#view?.snapshot.version ?? 0);
  }

  setVersionstampedValue(key: Key, value: VersionstampedBytes): void {
    this.#checkWrite(key);
    checkValue(value.bytes);
    checkStamp(value);
    this.#buffer.setStampedValue(key, value);
  }

  addReadConflictKey(key: Key): void {
    this.#checkWrite(key);
    this.#openNow();
    this.#remember(keyText(key), undefined);
  }

  addReadConflictRange({ begin, end }: { readonly begin: Key; readonly end: Key }): void {
    this.#assertOpen();
    checkRange(begin, end);
    this.#openNow();
    this.#rememberRange(begin, end);
  }

  addWriteConflictKey(key: Key): void {
    this.#checkWrite(key);
    this.#conflictByteCount += key.length;
    this.#writes.push({ begin: keyText(key), end: undefined });
  }

  addWriteConflictRange({ begin, end }: { readonly begin: Key; readonly end: Key }): void {
    this.#assertOpen();
    checkRange(begin, end);
    this.#conflictByteCount += begin.length + end.length;
    this.#writes.push({ begin: keyText(begin), end: keyText(end) });
  }

  nextUserVersion(): number {
    checkUserVersion(this.#userVersion);
    return this.#userVersion++;
  }

  watch(key: Key): Watch {
    this.#checkWrite(key);
    this.#openNow();
    const watch = new PendingWatch(copyBytes(key));
    this.#watches.push(watch);
    return watch;
  }

  afterCommit(effect: CommitEffect): void {
    this.#assertOpen();
    this.effects.push(effect);
  }

  // Commit and end

  async commit(): Promise<Commit> {
    this.#assertOpen();
    const readVersion = this.#view?.snapshot.version;
    try {
      if (!this.hasWrites) {
        this.#armWatches(() => readVersion);
        return { versionstamp: undefined };
      }
      const written = this.#watches.filter(
        ({ key }) => this.#buffer.find(keyText(key)) !== undefined,
      );
      // Handing over a large buffer is long synchronous work, so yield first.
      if (this.#buffer.byteCount >= TURN_BYTES) {
        await this.#store.clock.sleep(0);
        this.#assertOpen();
      }
      const commit = await this.#handOver(readVersion);
      // A watch must not fire for the transaction's own write. It must fire for a write that
      // another transaction committed between this transaction's read and its commit.
      this.#armWatches((watch) => (written.includes(watch) ? commit.version : readVersion));
      return commit;
    } catch (error) {
      for (const watch of this.#watches) watch.void();
      throw error;
    } finally {
      this.#end();
    }
  }

  /**
   * Hands the writes to the store. The transaction keeps no references to the writes during the
   * commit, because the garbage collector would copy them to the old generation.
   */
  #handOver(readVersion: number | undefined): Promise<StoreCommit> {
    const byteCount = this.#buffer.byteCount + this.#conflictByteCount;
    if (byteCount > TRANSACTION_BYTES_MAX) {
      throw new KeyValueError("KV_TOO_LARGE", { byteCount, max: TRANSACTION_BYTES_MAX });
    }
    if (this.#reads.length > 0) this.#checkAge();
    const buffer = this.#buffer;
    const committing = this.#store.commit({
      readVersion,
      reads: this.#reads,
      writes: this.#writes,
      mutations: buffer.mutations(),
    });
    this.#end();
    buffer.release();
    this.#view = undefined;
    this.#buffer = new WriteBuffer();
    this.#reads = [];
    this.#writes = [];
    return committing;
  }

  cancel(): void {
    if (this.#ended) return;
    this.#end();
    this.#buffer.release();
    for (const watch of this.#watches) watch.void();
  }

  #end(): void {
    this.#ended = true;
    this.#view?.snapshot.release();
  }

  #armWatches(versionFor: (watch: PendingWatch) => number | undefined): void {
    for (const watch of this.#watches) {
      // Setting a watch reads its key, so the read version is defined.
      watch.arm(this.#store.watch(watch.key, versionFor(watch) as number));
    }
  }

  #assertOpen(): void {
    if (this.#ended) throw new KeyValueError("KV_CLOSED", { closed: "transaction" });
  }

  #checkWrite(key: Key): void {
    this.#assertOpen();
    checkKey(key);
  }

  #checkAge(): void {
    const ageMs = this.#store.clock.monotonicMs() - this.#takenAtMs;
    if (ageMs > READ_VERSION_AGE_MS_MAX) throw new KeyValueError("KV_TOO_OLD", { ageMs });
  }

  /**
   * Returns the read view, or `undefined` before the first read. Throws if the view is no longer
   * readable.
   */
  #readable(): ReadView | undefined {
    this.#assertOpen();
    if (this.#view !== undefined) this.#checkAge();
    return this.#view;
  }

  async #open(): Promise<ReadView> {
    if (this.#store.beforeSnapshot !== undefined) {
      this.#opening ??= this.#store.beforeSnapshot();
      await this.#opening;
      this.#assertOpen();
    }
    if (this.#store.turn?.isOver) await this.#giveWay();
    return this.#openNow();
  }

  /** Yields to the event loop, so that other transactions can run. */
  async #giveWay(): Promise<void> {
    await this.#store.clock.sleep(0);
    this.#assertOpen();
  }

  #openNow(): ReadView {
    if (this.#view === undefined) {
      this.#view = { snapshot: this.#store.snapshot(), buffer: this.#buffer };
      this.#takenAtMs = this.#store.clock.monotonicMs();
    }
    return this.#view;
  }

  #remember(begin: string, end: string | undefined): void {
    this.#conflictByteCount += begin.length + (end?.length ?? 0);
    this.#reads.push({ begin, end });
  }

  #rememberRange(begin: Key, end: Key): void {
    this.#remember(keyText(begin), keyText(end));
  }

  /** The key that a selector resolves to. Selectors with offset 1 need no read. */
  async #bound(selector: KeySelector, remembered: boolean): Promise<Key> {
    if (selector.offset === 1) return selector.orEqual ? keyAfter(selector.key) : selector.key;
    return this.readKey(selector, remembered);
  }
}

/** Reads without conflict ranges. */
class SnapshotReads implements ReadTransaction {
  readonly #transaction: BufferedTransaction;

  constructor(transaction: BufferedTransaction) {
    this.#transaction = transaction;
  }

  get snapshot(): ReadTransaction {
    return this;
  }

  get(key: Key): Promise<Value | undefined> {
    return this.#transaction.read(key, false);
  }

  getMany(keys: readonly Key[]): Promise<(Value | undefined)[]> {
    return this.#transaction.readMany(keys, false);
  }

  getKey(selector: KeySelector): Promise<Key> {
    return this.#transaction.readKey(selector, false);
  }

  getRange(range: KeyRange, options: RangeOptions = {}): AsyncIterable<KeyValue> {
    return new PagedRange(this, range, options);
  }

  getRangePage(range: KeyRange, options: RangeOptions = {}): Promise<Page<KeyValue>> {
    return this.#transaction.readRange(range, options, false);
  }

  readVersion(): Promise<bigint> {
    return this.#transaction.readVersion();
  }
}

/**
 * A watch of a transaction that has not committed: it waits for the commit, then for the change.
 */
class PendingWatch implements Watch {
  readonly key: Key;
  #state: { kind: "waiting" } | { kind: "armed"; watch: Watch } | { kind: "void" } = {
    kind: "waiting",
  };
  #cancelled = false;

  constructor(key: Key) {
    this.key = key;
  }

  arm(watch: Watch): void {
    this.#state = { kind: "armed", watch };
    if (this.#cancelled) watch.cancel();
  }

  void(): void {
    this.#state = { kind: "void" };
  }

  async fired(signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    assert(this.#state.kind !== "waiting", "A watch must be awaited only after its transaction");
    // If the commit failed or its outcome is unknown, there is no version to watch from, so the
    // watch fires immediately.
    if (this.#state.kind === "armed") await this.#state.watch.fired(signal);
  }

  cancel(): void {
    this.#cancelled = true;
    if (this.#state.kind === "armed") this.#state.watch.cancel();
  }
}

function textAfter(key: Key): string {
  return `${keyText(key)}\0`;
}

function ownCopy(value: Value | undefined): Value | undefined {
  return value && copyBytes(value);
}

function isKey(bound: Key | KeySelector): bound is Key {
  return bound instanceof Uint8Array;
}
