/** Requeues many jobs, in transactions that are as large as possible. */
import { errorCode } from "../base/index.ts";
import { isRetryable, type KeyValueStore, type Transaction } from "../kv/index.ts";

/**
 * Jobs requeued per transaction, with CouchDB's values. `BATCH_ROWS_FIRST`: initial number.
 * `BATCH_ROWS_STEP`: increase after a full batch. `BATCH_FACTOR`: factor after a failure.
 */
const BATCH_ROWS_FIRST = 1000;
const BATCH_ROWS_STEP = 100;
const BATCH_FACTOR = 0.75;
/** Maximum number of attempts with one batch size before it is reduced. */
const BATCH_RETRY_COUNT_MAX = 3;

export interface RequeuedBatch {
  readonly jobCount: number;
  readonly isDone: boolean;
}

/** Calls `requeue` until it is done. Returns the number of requeued jobs. */
export async function requeueInBatches(
  kv: KeyValueStore,
  requeue: (tx: Transaction, limit: number) => Promise<RequeuedBatch>,
): Promise<number> {
  let rowCountMax = BATCH_ROWS_FIRST;
  let jobCount = 0;
  for (;;) {
    try {
      const batch = await kv.transact((tx) => requeue(tx, rowCountMax), {
        retryCountMax: BATCH_RETRY_COUNT_MAX,
        whenUnknown: "retry",
      });
      jobCount += batch.jobCount;
      if (batch.isDone) return jobCount;
      rowCountMax += BATCH_ROWS_STEP;
    } catch (error) {
      if (!isTooMuch(error) || rowCountMax === 1) throw error;
      rowCountMax = Math.max(1, Math.floor(rowCountMax * BATCH_FACTOR));
    }
  }
}

/** Whether a smaller transaction might succeed. */
function isTooMuch(error: unknown): boolean {
  return errorCode(error) === "KV_TOO_LARGE" || isRetryable(error);
}
