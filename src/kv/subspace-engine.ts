/**
 * An engine nested in another: it adds a prefix to every key, and cannot access other keys. It
 * allows a store to share a cluster, and tests to share a store.
 */
import { compareBytes, concatBytes, type Page } from "../base/index.ts";
import type { Engine, EngineTransaction } from "./engine.ts";
import { BEHIND_LAST_KEY, FIRST_KEY, prefixEnd } from "./key-bytes.ts";
import type { KeySelector } from "./key-selector.ts";
import { PagedRange } from "./paged-range.ts";
import type {
  Key,
  KeyRange,
  KeyValue,
  RangeOptions,
  ReadTransaction,
  SetOptions,
  Transaction,
  Value,
  Watch,
} from "./transaction.ts";
import type { VersionstampedBytes } from "./versionstamp.ts";

export class SubspaceEngine implements Engine {
  readonly name: string;
  readonly #engine: Engine;
  readonly #bounds: PrefixBounds;

  /** Closing this engine also closes `engine`. */
  constructor(engine: Engine, prefix: Uint8Array) {
    this.name = engine.name;
    this.#engine = engine;
    this.#bounds = new PrefixBounds(prefix);
  }

  begin(attempt?: number): EngineTransaction {
    const inner = this.#engine.begin(attempt);
    return {
      transaction: new PrefixedTransaction(inner.transaction, this.#bounds),
      effects: inner.effects,
      get hasWrites() {
        return inner.hasWrites;
      },
      commit: () => inner.commit(),
      cancel: () => inner.cancel(),
    };
  }

  get failed(): Engine["failed"] {
    return this.#engine.failed;
  }

  get clearsRangesAtOnce(): boolean {
    return this.#engine.clearsRangesAtOnce ?? false;
  }

  isFull(): boolean {
    return this.#engine.isFull?.() ?? false;
  }

  isAvailable(): boolean {
    return this.#engine.isAvailable?.() ?? true;
  }

  close(): Promise<void> {
    return this.#engine.close();
  }
}

/** Adds the prefix to keys and bounds, and removes it again. */
class PrefixBounds {
  readonly prefix: Uint8Array;
  readonly #end: Key;

  constructor(prefix: Uint8Array) {
    this.prefix = prefix;
    this.#end = prefixEnd(prefix);
  }

  wrap(key: Key): Key {
    // The bound after all keys maps to the end of the prefix.
    if (key.length === 1 && key[0] === BEHIND_LAST_KEY[0]) return this.#end;
    return concatBytes([this.prefix, key]);
  }

  wrapRange({ begin, end }: { readonly begin: Key; readonly end: Key }): {
    readonly begin: Key;
    readonly end: Key;
  } {
    return { begin: this.wrap(begin), end: this.wrap(end) };
  }

  wrapSelector(selector: KeySelector): KeySelector {
    return { ...selector, key: this.wrap(selector.key) };
  }

  wrapStamped({ bytes, offset }: VersionstampedBytes): VersionstampedBytes {
    return { bytes: concatBytes([this.prefix, bytes]), offset: offset + this.prefix.length };
  }

  /**
   * Removes the prefix from a resolved key. A key outside the prefix is mapped to the bound before
   * the first or after the last key.
   */
  unwrap(key: Key): Key {
    if (compareBytes(key, this.prefix) < 0) return FIRST_KEY;
    if (compareBytes(key, this.#end) >= 0) return BEHIND_LAST_KEY;
    return key.subarray(this.prefix.length);
  }
}

class PrefixedReads implements ReadTransaction {
  protected readonly bounds: PrefixBounds;
  readonly #reads: ReadTransaction;
  #snapshot: ReadTransaction | undefined;

  constructor(reads: ReadTransaction, bounds: PrefixBounds) {
    this.#reads = reads;
    this.bounds = bounds;
  }

  get snapshot(): ReadTransaction {
    this.#snapshot ??= new PrefixedReads(this.#reads.snapshot, this.bounds);
    return this.#snapshot;
  }

  get(key: Key): Promise<Value | undefined> {
    return this.#reads.get(this.bounds.wrap(key));
  }

  getMany(keys: readonly Key[]): Promise<(Value | undefined)[]> {
    return this.#reads.getMany(keys.map((key) => this.bounds.wrap(key)));
  }

  async getKey(selector: KeySelector): Promise<Key> {
    return this.bounds.unwrap(await this.#reads.getKey(this.bounds.wrapSelector(selector)));
  }

  getRange(range: KeyRange, options: RangeOptions = {}): AsyncIterable<KeyValue> {
    return new PagedRange(this, range, options);
  }

  async getRangePage(range: KeyRange, options: RangeOptions = {}): Promise<Page<KeyValue>> {
    const begin = await this.#bound(range.begin);
    const end = await this.#bound(range.end);
    const prefixLength = this.bounds.prefix.length;
    // Byte limits do not count the prefix, so the page can end slightly early.
    const page = await this.#reads.getRangePage({ begin, end }, options);
    const entries = page.entries.map(({ key, value }) => ({
      key: key.subarray(prefixLength),
      value,
    }));
    return { entries, stoppedBy: page.stoppedBy };
  }

  readVersion(): Promise<bigint> {
    return this.#reads.readVersion();
  }

  /**
   * Adds the prefix to a bound. A selector whose offset is not 1 is resolved first, because it
   * could refer to a key outside the prefix.
   */
  async #bound(bound: Key | KeySelector): Promise<Key | KeySelector> {
    if (bound instanceof Uint8Array) return this.bounds.wrap(bound);
    if (bound.offset === 1) return this.bounds.wrapSelector(bound);
    return this.bounds.wrap(await this.getKey(bound));
  }
}

class PrefixedTransaction extends PrefixedReads implements Transaction {
  readonly #transaction: Transaction;

  constructor(transaction: Transaction, bounds: PrefixBounds) {
    super(transaction, bounds);
    this.#transaction = transaction;
  }

  set(key: Key, value: Value, options?: SetOptions): void {
    this.#transaction.set(this.bounds.wrap(key), value, options);
  }

  clear(key: Key): void {
    this.#transaction.clear(this.bounds.wrap(key));
  }

  clearRange(range: { readonly begin: Key; readonly end: Key }): void {
    this.#transaction.clearRange(this.bounds.wrapRange(range));
  }

  add(key: Key, delta: bigint): void {
    this.#transaction.add(this.bounds.wrap(key), delta);
  }

  max(key: Key, value: Value): void {
    this.#transaction.max(this.bounds.wrap(key), value);
  }

  byteMin(key: Key, value: Value): void {
    this.#transaction.byteMin(this.bounds.wrap(key), value);
  }

  setVersionstampedKey(key: VersionstampedBytes, value: Value): void {
    this.#transaction.setVersionstampedKey(this.bounds.wrapStamped(key), value);
  }

  setVersionstampedValue(key: Key, value: VersionstampedBytes): void {
    this.#transaction.setVersionstampedValue(this.bounds.wrap(key), value);
  }

  addReadConflictKey(key: Key): void {
    this.#transaction.addReadConflictKey(this.bounds.wrap(key));
  }

  addReadConflictRange(range: { readonly begin: Key; readonly end: Key }): void {
    this.#transaction.addReadConflictRange(this.bounds.wrapRange(range));
  }

  addWriteConflictKey(key: Key): void {
    this.#transaction.addWriteConflictKey(this.bounds.wrap(key));
  }

  addWriteConflictRange(range: { readonly begin: Key; readonly end: Key }): void {
    this.#transaction.addWriteConflictRange(this.bounds.wrapRange(range));
  }

  nextUserVersion(): number {
    return this.#transaction.nextUserVersion();
  }

  watch(key: Key): Watch {
    return this.#transaction.watch(this.bounds.wrap(key));
  }

  afterCommit(effect: Parameters<Transaction["afterCommit"]>[0]): void {
    this.#transaction.afterCommit(effect);
  }
}
