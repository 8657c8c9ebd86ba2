/**
 * The interface of a transaction body. The model is FoundationDB's: serializable, optimistic, reads see the
 * transaction's own writes, limits are the same on every engine.
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

/** From `begin`, inclusive, to `end`, exclusive; either may be a selector. */
export interface KeyRange {
  readonly begin: Key | KeySelector;
  readonly end: Key | KeySelector;
}

export interface RangeOptions {
  /** At most so many rows; no limit when absent. */
  readonly limit?: number;
  /** From the end downwards. */
  readonly reverse?: boolean;
  /** Stop after the row that reaches so many bytes of keys and values; no limit when absent. */
  readonly byteLimit?: number;
  /** Values have their lengths and no defined bytes, which spares an engine the copies. */
  readonly lengthsOnly?: boolean;
}

/** Reads. Serializable unless they go through `snapshot`. */
export interface ReadTransaction {
  /** The same reads without read conflicts. */
  readonly snapshot: ReadTransaction;
  get(key: Key): Promise<Value | undefined>;
  /**
   * As `get` of each key, all at once: the values in the order of the keys. Long ones may take several turns; what the transaction itself
   * writes meanwhile is seen, or not.
   */
  getMany(keys: readonly Key[]): Promise<(Value | undefined)[]>;
  /** The key that a selector resolves to; the empty key before the first, `0xff` behind the last. */
  getKey(selector: KeySelector): Promise<Key>;
  /** Rows in key order, fetched page by page while they are consumed. */
  getRange(range: KeyRange, options?: RangeOptions): AsyncIterable<KeyValue>;
  /** One page in one call; it says why it ended. Go on from behind the last key. */
  getRangePage(range: KeyRange, options?: RangeOptions): Promise<Page<KeyValue>>;
  readVersion(): Promise<bigint>;
}

export interface SetOptions {
  /** Nobody changes the bytes of the value any more, so megabytes of them need not be copied. */
  readonly isConstant?: boolean;
}

/** Reads and writes. Nothing is visible to others before the commit, and then all of it is. */
export interface Transaction extends ReadTransaction {
  set(key: Key, value: Value, options?: SetOptions): void;
  clear(key: Key): void;
  /** Clears at most CLEARED_KEYS_MAX keys; `removeInBackground` takes ranges of any size. */
  clearRange(range: { readonly begin: Key; readonly end: Key }): void;
  /** Adds to a little-endian 64-bit counter without reading it, so that adders never conflict. */
  add(key: Key, delta: bigint): void;
  /** Keeps the larger of the stored and the given value, as little-endian unsigned integers. */
  max(key: Key, value: Value): void;
  /** Keeps the smaller of the stored and the given value in byte order; sets it when absent. */
  byteMin(key: Key, value: Value): void;
  /** Sets a key whose versionstamp is filled in at commit. Such a write cannot be read back in this transaction. */
  setVersionstampedKey(key: VersionstampedBytes, value: Value): void;
  /** Sets a value whose versionstamp is filled in at commit. */
  setVersionstampedValue(key: Key, value: VersionstampedBytes): void;
  addReadConflictKey(key: Key): void;
  addReadConflictRange(range: { readonly begin: Key; readonly end: Key }): void;
  addWriteConflictKey(key: Key): void;
  addWriteConflictRange(range: { readonly begin: Key; readonly end: Key }): void;
  /** A number that is new for each versionstamp of this transaction: 0, 1, 2, …; the user version that orders them. KV_TOO_LARGE after 65,536. */
  nextUserVersion(): number;
  /** Announces the first change of the key's value after this transaction's commit. Armed at commit; void if it fails. */
  watch(key: Key): Watch;
  /** Runs after a successful commit, once, in order of registration. Effects are dropped when an attempt is retried. */
  afterCommit(effect: (commit: Commit) => void): void;
}

/** A commit that succeeded. `versionstamp` has user version 0; undefined when nothing was written. */
export interface Commit {
  readonly versionstamp: Versionstamp | undefined;
}

/** A promise of a change. It may fire without one, and tells nothing of what changed: read again. */
export interface Watch {
  /** Resolves when the key may have changed; rejects with `signal.reason`, or when the store closes. */
  fired(signal?: AbortSignal): Promise<void>;
  /** Gives the watch up. Safe to call twice, and after it fired. */
  cancel(): void;
}
