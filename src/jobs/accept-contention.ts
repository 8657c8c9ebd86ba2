/**
 * Estimates how many other acceptors compete for the same jobs. A single acceptor reads and accepts
 * only the first jobs. Several acceptors would all choose the same jobs, so each acceptor reads
 * several batches and chooses a random one, which makes a collision unlikely. (CouchDB always
 * chooses among 1024 rows.) A job that is added while all acceptors wait wakes all of them; each
 * acceptor therefore sleeps for a short random time, so that usually only the first acceptor tries
 * to accept the job.
 *
 * The estimate counts the choices of this process that are in progress or failed with a conflict.
 * The count of failed choices decays as later choices succeed.
 */
import type { Random } from "../base/index.ts";
import type { Transaction } from "../kv/index.ts";

/**
 * Number of batches added to the choice for each other acceptor. Reading this many costs about as
 * much as a retry.
 */
const BATCHES_PER_OTHER = 5;
/** Maximum number of rows read. CouchDB always reads this many to choose one job. */
const ROW_COUNT_MAX = 1024;
const OTHER_COUNT_MAX = 16;
/** Maximum delay for each other acceptor: twice the duration of an acceptance on a cluster. */
const ACCEPT_DELAY_MS_EACH = 20;
/**
 * Factor by which an acceptance without conflict reduces the estimated number of other acceptors.
 */
const MEMORY = 0.95;

export class AcceptContention {
  #otherCount = 0;

  /** Returns the number of rows to read, among which a batch of `batchRowCount` is chosen. */
  rowCount(batchRowCount: number): number {
    const batchCount = 1 + Math.round(this.#otherCount * BATCHES_PER_OTHER);
    if (batchCount === 1) return batchRowCount;
    return Math.max(2 * batchRowCount, Math.min(ROW_COUNT_MAX, batchCount * batchRowCount));
  }

  /**
   * Returns a random delay before accepting a job that woke all acceptors; 0 for a single acceptor.
   */
  acceptDelayMs(random: Random): number {
    return random.ratio() * this.#otherCount * ACCEPT_DELAY_MS_EACH;
  }

  /** Records a choice made by `tx`. */
  note(tx: Transaction): void {
    this.#otherCount = Math.min(OTHER_COUNT_MAX, this.#otherCount + 1);
    tx.afterCommit(() => {
      this.#otherCount = Math.max(0, this.#otherCount - 1) * MEMORY;
    });
  }
}
