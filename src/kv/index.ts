/**
 * The ordered transactional key-value layer: FoundationDB's semantics on every engine. The folder
 * `buffered` implements transactions with buffered writes, for engines that have no such
 * transactions.
 */
export type { StoreCommit } from "./buffered/buffered-transaction.ts";
export { BufferedTransaction } from "./buffered/buffered-transaction.ts";
export type { MemoryFaults } from "./buffered/memory-engine.ts";
export { MemoryEngine, MemoryStorage } from "./buffered/memory-engine.ts";
export type { PageOptions, StoreSnapshot } from "./buffered/read-view.ts";
export type { Writes } from "./buffered/resolver.ts";
export { Resolver } from "./buffered/resolver.ts";
export { SlabPool } from "./buffered/value-arena.ts";
export type { CommitEffect, Engine, EngineTransaction, StoreSpace } from "./engine.ts";
export { BEHIND_LAST_KEY, FIRST_KEY, keyAfter, keyText, prefixEnd } from "./key-bytes.ts";
export type { KeySelector } from "./key-selector.ts";
export {
  firstGreaterOrEqual,
  firstGreaterThan,
  lastLessOrEqual,
  lastLessThan,
} from "./key-selector.ts";
export type { KeyShape } from "./key-shape.ts";
export {
  type KeyBounds,
  type Keys,
  type KeysOf,
  keyRow,
  keyShapes,
  keyTable,
} from "./key-table.ts";
export type { Fence, ReadOptions, RetryPolicy, TransactOptions } from "./key-value-store.ts";
export { KeyValueStore } from "./key-value-store.ts";
export type { KeyValueErrorCode } from "./kv-error.ts";
export { isRetryable, KeyValueError } from "./kv-error.ts";
export {
  CLEARED_KEYS_MAX,
  checkBound,
  checkKey,
  checkRange,
  checkStamp,
  checkUserVersion,
  checkValue,
  NET_CLEARED_KEYS_MAX,
  READ_VERSION_AGE_MS_MAX,
  VALUE_BYTES_MAX,
} from "./limits.ts";
export type { AtomicOperation, CommitRequest, Mutation, TextInterval } from "./mutation.ts";
export { applyAtomic, decodeCounter, littleEndian64, writeVersionstamp } from "./mutation.ts";
export { packJson, unpackJson } from "./packed-json.ts";
export { PagedRange } from "./paged-range.ts";
export type { Removal } from "./removals.ts";
export { getRemoval, listRemovals, REMOVAL_KEY_SHAPES, removeInBackground } from "./removals.ts";
export type { RemovedPage } from "./remover.ts";
export { Remover } from "./remover.ts";
export { formatOf, StoreFormat } from "./store-format.ts";
export { Subspace } from "./subspace.ts";
export { SubspaceEngine } from "./subspace-engine.ts";
export type {
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
} from "./transaction.ts";
export { KV_KEY_SHAPES } from "./transaction-ids.ts";
export type { Tuple, TupleItem } from "./tuple.ts";
export {
  Double,
  Float,
  packTuple,
  packTupleVersionstamped,
  Uuid,
  unpackText,
  unpackTuple,
} from "./tuple.ts";
export type { VersionstampedBytes } from "./versionstamp.ts";
export { VERSIONSTAMP_BYTES, Versionstamp } from "./versionstamp.ts";
export { WatchRegistry } from "./watch-registry.ts";
