/**
 * The interface of a transaction body. The model is FoundationDB's: serializable, optimistic, reads
 * see the transaction's own writes, limits are the same on every engine.
 */
import type { Page } from "../base/index.ts";
import type { Key } from "./key-bytes.ts";
import type { KeySelector } from "./key-selector.ts";
import type { Versionstamp, VersionstampedBytes } from "./versionstamp.ts";

export type { Key };
export type Value = Uint8Array;

export interface KeyValue {
  readonly key: Key;
  readonly value: Value;
}

/** A range from `begin` (inclusive) to `end` (exclusive). Each bound is a key or a key selector. */
export interface KeyRange {
  readonly begin: Key | KeySelector;
  readonly end: Key | KeySelector;
}

export interface RangeOptions {
  /** Maximum number of rows. Default: no limit. */
  readonly limit?: number;
  /** Whether to return the rows in descending order. */
  readonly reverse?: boolean;
  /** Stops after the row that reaches this many bytes of keys and values. Default: no limit. */
  readonly byteLimit?: number;
  /**
   * Whether only the lengths of values are needed. Values then have the right length but undefined
   * content, so that the engine need not copy them.
   */
  readonly lengthsOnly?: boolean;
}

/** Read operations. They are serializable, except those of `snapshot`. */
export interface ReadTransaction {
  /** The same reads, without read conflict ranges. */
  readonly snapshot: ReadTransaction;
  get(key: Key): Promise<Value | undefined>;
  /**
   * Reads several keys concurrently. Returns the values in the order of the keys. Large values can
   * take several turns of the event loop; it is undefined whether the result includes writes that
   * the transaction makes in the meantime.
   */
  getMany(keys: readonly Key[]): Promise<(Value | undefined)[]>;
  /**
   * Returns the key that a selector resolves to. A position before the first key is the empty key;
   * a position after the last key is `0xff`.
   */
  getKey(selector: KeySelector): Promise<Key>;
  /** Rows in key order, fetched page by page as they are consumed. */
  getRange(range: KeyRange, options?: RangeOptions): AsyncIterable<KeyValue>;
  /** One page in one call, with the reason why it ended. Continue after its last key. */
  getRangePage(range: KeyRange, options?: RangeOptions): Promise<Page<KeyValue>>;
  readVersion(): Promise<bigint>;
}

export interface SetOptions {
  /**
   * Promises that the bytes of the value will not change, so that large values need not be copied.
   */
  readonly isConstant?: boolean;
}

/** Read and write operations. Writes become visible to other transactions atomically, at commit. */
export interface Transaction extends ReadTransaction {
  set(key: Key, value: Value, options?: SetOptions): void;
  clear(key: Key): void;
  /** Clears at most CLEARED_KEYS_MAX keys. `removeInBackground` accepts ranges of any size. */
  clearRange(range: { readonly begin: Key; readonly end: Key }): void;
  /**
   * Adds to a little-endian 64-bit counter without reading it, so concurrent additions never
   * conflict.
   */
  add(key: Key, delta: bigint): void;
  /**
   * Sets the key to the larger of the stored and the given value, as little-endian unsigned
   * integers.
   */
  max(key: Key, value: Value): void;
  /**
   * Sets the key to the smaller of the stored and the given value in byte order, or to the given
   * value if the key is absent.
   */
  byteMin(key: Key, value: Value): void;
  /**
   * Sets a key whose versionstamp is filled in at commit. Such a write cannot be read back in this
   * transaction.
   */
  setVersionstampedKey(key: VersionstampedBytes, value: Value): void;
  /** Sets a value whose versionstamp is filled in at commit. */
  setVersionstampedValue(key: Key, value: VersionstampedBytes): void;
  addReadConflictKey(key: Key): void;
  addReadConflictRange(range: { readonly begin: Key; readonly end: Key }): void;
  addWriteConflictKey(key: Key): void;
  addWriteConflictRange(range: { readonly begin: Key; readonly end: Key }): void;
  /**
   * The next user version, which orders the versionstamps of this transaction: 0, 1, 2, …. Throws
   * KV_TOO_LARGE after 65,536.
   */
  nextUserVersion(): number;
  /**
   * Returns a watch for the first change of the key's value after this transaction's commit. The
   * commit arms the watch. If the commit fails, the watch fires immediately.
   */
  watch(key: Key): Watch;
  /**
   * Registers an effect, which runs once after a successful commit, in order of registration.
   * Effects of a retried attempt are dropped.
   */
  afterCommit(effect: (commit: Commit) => void): void;
}

/**
 * A successful commit. `versionstamp` is undefined if nothing was written; its user version is 0.
 */
export interface Commit {
  readonly versionstamp: Versionstamp | undefined;
}

/**
 * Notification that a key might have changed. It can fire spuriously and does not contain the
 * change, so the key has to be read again.
 */
export interface Watch {
  /**
   * Resolves when the key might have changed; rejects with `signal.reason`, or when the store
   * closes.
   */
  fired(signal?: AbortSignal): Promise<void>;
  /** Cancels the watch. Has no effect if it has already fired or been cancelled. */
  cancel(): void;
}
