/** The ordered transactional key-value layer: FoundationDB's semantics on every engine. */
export type { Engine, EngineTransaction } from "./engine.ts";
export type { KeySelector } from "./key-selector.ts";
export {
  firstGreaterOrEqual,
  firstGreaterThan,
  lastLessOrEqual,
  lastLessThan,
} from "./key-selector.ts";
export type {
  Commit,
  Key,
  KeyRange,
  KeyValue,
  RangeOptions,
  ReadTransaction,
  Transaction,
  Value,
  Watch,
} from "./transaction.ts";
export type { VersionstampedBytes } from "./versionstamp.ts";
export { VERSIONSTAMP_BYTES, Versionstamp } from "./versionstamp.ts";
