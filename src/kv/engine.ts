/**
 * The interface between this layer and a store. An engine provides snapshots and atomic commits;
 * the only retry loop is in `key-value-store`. An engine with synchronous snapshots builds its
 * transactions with `buffered-transaction`, which provides read-your-writes, conflict ranges and
 * limits. FoundationDB provides these itself.
 */
import type { KeyValueError } from "./kv-error.ts";
import type { Commit, ReadTransaction, Transaction, Watch } from "./transaction.ts";

export type CommitEffect = (commit: Commit) => void;

/** One attempt of a transaction. */
export interface EngineTransaction {
  readonly transaction: Transaction;
  /** Effects registered with `afterCommit`, in order. The store runs them, not the engine. */
  readonly effects: readonly CommitEffect[];
  /** Whether a commit changes the store. Without writes, its outcome cannot be unknown. */
  readonly hasWrites: boolean;
  /**
   * Commits and ends the attempt. Rejects with KV_CONFLICT, KV_TOO_OLD, KV_TOO_LARGE,
   * KV_UNKNOWN_COMMIT, ….
   */
  commit(): Promise<Commit>;
  /** Ends the attempt without a commit. Later reads reject. Has no effect after a commit. */
  cancel(): void;
}

/** Space of a store's file, in bytes. */
export interface StoreSpace {
  readonly fileBytes: number;
  /** Part of the file that holds no data and is reused by later writes. */
  readonly freeBytes: number;
}

export interface Engine {
  readonly name: string;
  /** `attempt` counts from 0 within one call of `transact` or `read`. */
  begin(attempt?: number): EngineTransaction;
  /** Whether the store responds. Default: always. */
  isAvailable?(): boolean;
  /** Whether the store refuses writes because the disk is full. Default: never. */
  isFull?(): boolean;
  /** Disk space that the store occupies on this machine. Default: unknown. */
  space?(): StoreSpace;
  /**
   * Whether `clearRange` costs the same for any number of keys, as in FoundationDB. Default: false,
   * for an engine that removes the keys one by one.
   */
  readonly clearsRangesAtOnce?: boolean;
  /**
   * Resolves when the store can no longer serve this process; another process might still be able
   * to open it. Default: never.
   */
  readonly failed?: Promise<KeyValueError> | undefined;
  /** Ends all watches with KV_CLOSED and frees all resources. Idempotent. */
  close(): Promise<void>;
}

export type { ReadTransaction, Transaction, Watch };
