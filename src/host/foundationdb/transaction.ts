/** Adapts a FoundationDB transaction to `Transaction`. */
import { abortable, compareBytes, errorCode, type Page } from "../../base/index.ts";
import {
  BEHIND_LAST_KEY,
  type Commit,
  type CommitEffect,
  checkBound,
  checkKey,
  checkRange,
  checkStamp,
  checkUserVersion,
  checkValue,
  type EngineTransaction,
  FIRST_KEY,
  firstGreaterOrEqual,
  firstGreaterThan,
  type Key,
  type KeyRange,
  type KeySelector,
  type KeyValue,
  KeyValueError,
  keyAfter,
  littleEndian64,
  PagedRange,
  type RangeOptions,
  type ReadTransaction,
  type Transaction,
  type Value,
  VERSIONSTAMP_BYTES,
  Versionstamp,
  type VersionstampedBytes,
  type Watch,
} from "../../kv/index.ts";
import { fdbError, isTooManyWatches } from "./errors.ts";
import {
  FDB_OPERATIONS,
  FDB_WANT_ALL,
  type FdbSelector,
  type FdbTransaction,
  type FdbWatch,
} from "./package.ts";

/** State that the engine keeps across transactions. */
export interface FoundationDbMonitor {
  /** Settles as `call` does, and detects slow calls. */
  observe<T>(call: Promise<T>): Promise<T>;
  readonly watches: Set<FdbWatch>;
  /** Waits before polling a key without a watch. Rejects with KV_CLOSED on close. */
  pause(signal: AbortSignal): Promise<void>;
}

class FoundationDbReads implements ReadTransaction {
  protected readonly monitor: FoundationDbMonitor;
  readonly #reads: FdbTransaction;
  readonly #isSnapshot: boolean;
  #snapshot: ReadTransaction | undefined;

  constructor(reads: FdbTransaction, monitor: FoundationDbMonitor, isSnapshot: boolean) {
    this.#reads = reads;
    this.monitor = monitor;
    this.#isSnapshot = isSnapshot;
  }

  get snapshot(): ReadTransaction {
    this.#snapshot ??= new FoundationDbReads(this.#reads.snapshot(), this.monitor, true);
    return this.#snapshot;
  }

  async get(key: Key): Promise<Value | undefined> {
    checkKey(key);
    const value = await this.#read(() => this.#reads.get(buffer(key)));
    return value && plainBytes(value);
  }

  getMany(keys: readonly Key[]): Promise<(Value | undefined)[]> {
    return Promise.all(keys.map((key) => this.get(key)));
  }

  async getKey(selector: KeySelector): Promise<Key> {
    checkBound(selector.key);
    const key = await this.#read(() => this.#reads.getKey(fdbSelector(selector)));
    // The package returns undefined for the empty key. The empty key is also the position before
    // all keys.
    if (key === undefined) return FIRST_KEY;
    return key[0] === BEHIND_LAST_KEY[0] ? BEHIND_LAST_KEY : plainBytes(key);
  }

  getRange(range: KeyRange, options: RangeOptions = {}): AsyncIterable<KeyValue> {
    return new PagedRange(this, range, options);
  }

  async getRangePage(range: KeyRange, options: RangeOptions = {}): Promise<Page<KeyValue>> {
    const begin = boundOf(range.begin);
    const end = boundOf(range.end);
    if (options.reverse !== true || this.#isSnapshot || begin === undefined || end === undefined) {
      return this.#readPage(this.#reads, range, options);
    }
    // For a reverse page, FoundationDB would add the whole range to the read conflicts, even if
    // only the last row is read. Concurrent appenders would then conflict. Here only the part that
    // was read is added to the read conflicts.
    const page = await this.#readPage(this.#reads.snapshot(), range, options);
    const last = page.entries[page.entries.length - 1];
    const lookedAt = page.stoppedBy === "exhausted" || last === undefined ? begin : last.key;
    if (compareBytes(lookedAt, end) < 0) {
      this.#reads.addReadConflictRange(buffer(lookedAt), buffer(end));
    }
    return page;
  }

  async readVersion(): Promise<bigint> {
    const version = await this.#read(() => this.#reads.getReadVersion());
    return version.readBigUInt64BE(0);
  }

  async #readPage(
    reads: FdbTransaction,
    range: KeyRange,
    options: RangeOptions,
  ): Promise<Page<KeyValue>> {
    const { limit = Number.POSITIVE_INFINITY, byteLimit = Number.POSITIVE_INFINITY } = options;
    const reverse = options.reverse ?? false;
    let begin = selectorOf(range.begin);
    let end = selectorOf(range.end);
    checkBound(begin.key);
    checkBound(end.key);
    const entries: KeyValue[] = [];
    let byteCount = 0;
    for (let iteration = 1; entries.length < limit; iteration++) {
      const { results, more } = await this.#read(() =>
        reads.getRangeNative(
          fdbSelector(begin),
          fdbSelector(end),
          limitOf(limit - entries.length),
          limitOf(byteLimit - byteCount),
          FDB_WANT_ALL,
          iteration,
          reverse,
        ),
      );
      for (const [key, value] of results) {
        if (byteCount >= byteLimit) return { entries, stoppedBy: "byte-limit" };
        entries.push({ key: plainBytes(key), value: plainBytes(value) });
        byteCount += key.length + value.length;
      }
      const last = entries[entries.length - 1];
      if (entries.length >= limit) break;
      if (byteCount >= byteLimit) return { entries, stoppedBy: "byte-limit" };
      if (!more || last === undefined) return { entries, stoppedBy: "exhausted" };
      if (reverse) end = firstGreaterOrEqual(last.key);
      else begin = firstGreaterThan(last.key);
    }
    return { entries, stoppedBy: "row-limit" };
  }

  async #read<T>(call: () => Promise<T>): Promise<T> {
    try {
      return await this.monitor.observe(call());
    } catch (error) {
      throw fdbError(error);
    }
  }
}

type State = "open" | "committing" | "committed" | "ended";

export class FoundationDbTransaction
  extends FoundationDbReads
  implements Transaction, EngineTransaction
{
  readonly effects: CommitEffect[] = [];
  readonly #transaction: FdbTransaction;
  #state: State = "open";
  hasWrites = false;
  #userVersion = 0;

  constructor(transaction: FdbTransaction, monitor: FoundationDbMonitor) {
    super(transaction, monitor, false);
    this.#transaction = transaction;
  }

  get transaction(): Transaction {
    return this;
  }

  set(key: Key, value: Value): void {
    checkKey(key);
    checkValue(value);
    this.#write((transaction) => transaction.set(buffer(key), buffer(value)));
  }

  clear(key: Key): void {
    checkKey(key);
    this.#write((transaction) => transaction.clear(buffer(key)));
  }

  clearRange({ begin, end }: { readonly begin: Key; readonly end: Key }): void {
    checkRange(begin, end);
    this.#write((transaction) => transaction.clearRange(buffer(begin), buffer(end)));
  }

  add(key: Key, delta: bigint): void {
    this.#operate("add", key, littleEndian64(delta));
  }

  max(key: Key, value: Value): void {
    this.#operate("max", key, value);
  }

  byteMin(key: Key, value: Value): void {
    this.#operate("byteMin", key, value);
  }

  setVersionstampedKey(key: VersionstampedBytes, value: Value): void {
    checkKey(key.bytes);
    checkValue(value);
    checkStamp(key);
    this.#write((transaction) =>
      transaction.atomicOpNative(
        FDB_OPERATIONS.setVersionstampedKey,
        withOffset(key),
        buffer(value),
      ),
    );
  }

  setVersionstampedValue(key: Key, value: VersionstampedBytes): void {
    checkKey(key);
    checkValue(value.bytes);
    checkStamp(value);
    this.#write((transaction) =>
      transaction.atomicOpNative(
        FDB_OPERATIONS.setVersionstampedValue,
        buffer(key),
        withOffset(value),
      ),
    );
  }

  addReadConflictKey(key: Key): void {
    checkKey(key);
    this.addReadConflictRange({ begin: key, end: keyAfter(key) });
  }

  addReadConflictRange({ begin, end }: { readonly begin: Key; readonly end: Key }): void {
    checkRange(begin, end);
    this.#assertOpen();
    // A read conflict range refers to the read version, which therefore is determined before the
    // commit.
    this.readVersion().catch(() => {});
    this.#transaction.addReadConflictRange(buffer(begin), buffer(end));
  }

  addWriteConflictKey(key: Key): void {
    checkKey(key);
    this.addWriteConflictRange({ begin: key, end: keyAfter(key) });
  }

  addWriteConflictRange({ begin, end }: { readonly begin: Key; readonly end: Key }): void {
    checkRange(begin, end);
    this.#write((transaction) => transaction.addWriteConflictRange(buffer(begin), buffer(end)));
  }

  nextUserVersion(): number {
    checkUserVersion(this.#userVersion);
    return this.#userVersion++;
  }

  watch(key: Key): Watch {
    checkKey(key);
    this.#assertOpen();
    const watch = this.#transaction.watch(buffer(key), { throwAllErrors: true });
    this.monitor.watches.add(watch);
    const forget = (): void => {
      this.monitor.watches.delete(watch);
    };
    watch.promise.then(forget, forget);
    return new FoundationDbWatch(watch, this.monitor, () => this.#state === "ended");
  }

  afterCommit(effect: CommitEffect): void {
    this.#assertOpen();
    this.effects.push(effect);
  }

  async commit(): Promise<Commit> {
    this.#assertOpen();
    this.#state = "committing";
    try {
      // The client requires that the versionstamp is requested before the commit.
      const stamp = this.hasWrites ? this.#transaction.getVersionstamp() : undefined;
      await this.monitor.observe(this.#transaction.rawCommit());
      this.#state = "committed";
      return { versionstamp: stamp && versionstampOf(await stamp.promise) };
    } catch (error) {
      this.#state = "ended";
      throw fdbError(error, this.hasWrites);
    }
  }

  cancel(): void {
    // After a commit, the transaction's watches remain active.
    if (this.#state !== "open") return;
    this.#state = "ended";
    this.#transaction.rawCancel();
  }

  #operate(operation: "add" | "max" | "byteMin", key: Key, operand: Value): void {
    checkKey(key);
    checkValue(operand);
    this.#write((transaction) =>
      transaction.atomicOpNative(FDB_OPERATIONS[operation], buffer(key), buffer(operand)),
    );
  }

  #write(write: (transaction: FdbTransaction) => void): void {
    this.#assertOpen();
    this.hasWrites = true;
    write(this.#transaction);
  }

  #assertOpen(): void {
    if (this.#state !== "open") throw new KeyValueError("KV_CLOSED", { closed: "transaction" });
  }
}

class FoundationDbWatch implements Watch {
  readonly #watch: FdbWatch;
  readonly #monitor: FoundationDbMonitor;
  readonly #isVoid: () => boolean;
  readonly #cancelling = new AbortController();

  constructor(watch: FdbWatch, monitor: FoundationDbMonitor, isVoid: () => boolean) {
    this.#watch = watch;
    this.#monitor = monitor;
    this.#isVoid = isVoid;
  }

  async fired(signal?: AbortSignal): Promise<void> {
    // The watch fires immediately: a transaction that was not committed, or whose outcome is
    // unknown, has no version from which to wait.
    if (this.#isVoid()) return;
    await abortable(this.#change(signal), signal);
  }

  cancel(): void {
    this.#cancelling.abort(new KeyValueError("KV_CLOSED", { closed: "watch" }));
    this.#watch.cancel();
  }

  async #change(signal: AbortSignal | undefined): Promise<void> {
    const cancelled = this.#cancelling.signal;
    try {
      await this.#watch.promise;
    } catch (error) {
      if (cancelled.aborted || errorCode(fdbError(error)) === "KV_CLOSED") {
        throw new KeyValueError("KV_CLOSED", { closed: "watch" }, { cause: error });
      }
      // A lost watch counts as a change, so the caller reads again. With too many watches, the next
      // watch would also be lost, so this function pauses first.
      if (!isTooManyWatches(error)) return;
      const ends = signal === undefined ? cancelled : AbortSignal.any([cancelled, signal]);
      await this.#monitor.pause(ends);
    }
  }
}

/** A Buffer that shares the memory; the package copies its arguments synchronously. */
function buffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function plainBytes(bytes: Buffer): Uint8Array {
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function selectorOf(bound: Key | KeySelector): KeySelector {
  return bound instanceof Uint8Array ? firstGreaterOrEqual(bound) : bound;
}

/** Returns the key that a bound resolves to, or `undefined` if that requires a read. */
function boundOf(bound: Key | KeySelector): Key | undefined {
  if (bound instanceof Uint8Array) return bound;
  if (bound.offset !== 1) return undefined;
  return bound.orEqual ? keyAfter(bound.key) : bound.key;
}

function fdbSelector({ key, orEqual, offset }: KeySelector): FdbSelector {
  return { key: buffer(key), orEqual, offset, _isKeySelector: true };
}

/** Converts a limit for FoundationDB's client, to which 0 means no limit. */
function limitOf(limit: number): number {
  return limit > 0x7fffffff ? 0 : Math.max(1, limit);
}

/** Appends the offset of the versionstamp as four little-endian bytes. */
function withOffset({ bytes, offset }: VersionstampedBytes): Buffer {
  const packed = Buffer.allocUnsafe(bytes.length + 4);
  packed.set(bytes);
  packed.writeUInt32LE(offset, bytes.length);
  return packed;
}

function versionstampOf(commitBytes: Buffer): Versionstamp {
  const bytes = new Uint8Array(VERSIONSTAMP_BYTES);
  bytes.set(commitBytes);
  return Versionstamp.fromBytes(bytes);
}
