/**
 * The port between the layer and a store. An engine gives snapshots and atomic commits; read-your-writes, conflict ranges,
 * retries and limits are built once above it (`transaction-buffer`, `retry`), except where an engine has them itself.
 */
import type { ReadTransaction, Transaction, Watch } from "./transaction.ts";

/** One attempt of a transaction. */
export interface EngineTransaction {
  readonly transaction: Transaction;
  /** Commits; rejects with KV_CONFLICT, KV_TOO_OLD, KV_TOO_LARGE, KV_UNKNOWN_COMMIT, …. Ends the attempt either way. */
  commit(): Promise<void>;
  /** Gives the attempt up; nothing was written. Safe after commit. */
  abandon(): void;
}

export interface Engine {
  readonly name: string;
  begin(): EngineTransaction;
  close(): Promise<void>;
}

export type { ReadTransaction, Transaction, Watch };
