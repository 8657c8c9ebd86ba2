/**
 * Estimates the number of concurrent acceptors. A single acceptor takes the first jobs and reads no
 * others. Several acceptors would all choose the same jobs, so each chooses among enough batches to
 * make a collision unlikely. (CouchDB always chooses among 1024 rows.) A single job that arrives
 * while all of them wait wakes all of them; each therefore waits for a short random time, and
 * usually one is first.
 *
 * The estimate counts choices whose commit this process has not seen: they are in progress or lost
 * a conflict. Lost choices are forgotten gradually as others succeed.
 */
import type { Random } from "../base/index.ts";
import type { Transaction } from "../kv/index.ts";

/** Number of batches that cost about as much to read as a retry. */
const BATCHES_PER_OTHER = 5;
/** Maximum number of rows read; CouchDB always reads as many to choose one job. */
const ROW_COUNT_MAX = 1024;
const OTHER_COUNT_MAX = 16;
/** Twice the duration of an acceptance on a cluster. */
const ACCEPT_DELAY_MS_EACH = 20;
/** Factor by which a successful choice reduces the memory of lost ones. */
const MEMORY = 0.95;

export class AcceptContention {
  #otherCount = 0;

  /** Number of rows among which to choose a batch of `batchRowCount`. */
  rowCount(batchRowCount: number): number {
    const batchCount = 1 + Math.round(this.#otherCount * BATCHES_PER_OTHER);
    if (batchCount === 1) return batchRowCount;
    return Math.max(2 * batchRowCount, Math.min(ROW_COUNT_MAX, batchCount * batchRowCount));
  }

  /** Random wait before accepting a job that woke all acceptors; 0 for a single acceptor. */
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
