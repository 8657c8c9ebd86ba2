/**
 * The port between the layer and a store. An engine provides snapshots and atomic commits; `key-value-store` has the
 * one retry loop above it. An engine with synchronous snapshots builds its transactions with `buffered-transaction`,
 * which has read-your-writes, conflict ranges and limits. FoundationDB's client has all of these itself.
 */
import type { KeyValueError } from "./kv-error.ts";
import type { Commit, ReadTransaction, Transaction, Watch } from "./transaction.ts";

export type CommitEffect = (commit: Commit) => void;

/** One attempt of a transaction. */
export interface EngineTransaction {
  readonly transaction: Transaction;
  /** What `afterCommit` registered, in order. The store runs them, not the engine. */
  readonly effects: readonly CommitEffect[];
  /** Whether a commit changes the store. One that does not has no fate that could be unknown. */
  readonly hasWrites: boolean;
  /** Commits; rejects with KV_CONFLICT, KV_TOO_OLD, KV_TOO_LARGE, KV_UNKNOWN_COMMIT, …. Ends the attempt either way. */
  commit(): Promise<Commit>;
  /** Ends the attempt without a commit: nothing is written, and reads reject from now on. Does nothing after a commit. */
  cancel(): void;
}

export interface Engine {
  readonly name: string;
  /** `attempt` counts from 0 within one call of `transact` or `read`. */
  begin(attempt?: number): EngineTransaction;
  /** False while the store does not answer, or when it will not any more; absent where that cannot be. */
  isAvailable?(): boolean;
  /** True while the store refuses writes for want of room; absent where that cannot be. */
  isFull?(): boolean;
  /** Whether `clearRange` costs the same for any number of keys, as in FoundationDB. Absent: it removes them one by one. */
  readonly clearsRangesAtOnce?: boolean;
  /** Resolves when the store can serve this process no more, but perhaps another; absent where that cannot be. */
  readonly failed?: Promise<KeyValueError> | undefined;
  /** Ends all watches with KV_CLOSED and frees what the engine holds. Safe to call twice. */
  close(): Promise<void>;
}

export type { ReadTransaction, Transaction, Watch };
