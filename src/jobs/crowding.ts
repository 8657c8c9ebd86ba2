/**
 * Estimates how many acceptors take from the queue at the same time. An acceptor that is alone takes the first jobs and
 * reads no others. Several acceptors would all choose the same jobs, so each chooses among enough batches to make a
 * collision unlikely. (CouchDB: among 1024 rows, always.) One job that comes while all of them wait calls all of them; so
 * each stands back for a moment of its own, and mostly one is there first.
 *
 * The estimate counts the choices whose commit this process has not seen: they are under way, or lost a conflict. Lost
 * choices are forgotten gradually as others succeed.
 */
import type { Random } from "../base/index.ts";
import type { Transaction } from "../kv/index.ts";

/** A retry costs about as much as reading so many batches. */
const BATCHES_PER_OTHER = 5;
/** CouchDB reads as many to choose one job. */
const ROW_COUNT_MAX = 1024;
const OTHER_COUNT_MAX = 16;
/** What an acceptance takes on a cluster, twice. */
const STAND_BACK_MS_EACH = 20;
/** What is left of the lost choices after one that held. */
const MEMORY = 0.95;

export class Crowding {
  #otherCount = 0;

  /** Rows to choose a batch of `batchRowCount` among. */
  rowCount(batchRowCount: number): number {
    const batchCount = 1 + Math.round(this.#otherCount * BATCHES_PER_OTHER);
    if (batchCount === 1) return batchRowCount;
    return Math.max(2 * batchRowCount, Math.min(ROW_COUNT_MAX, batchCount * batchRowCount));
  }

  /** How long to leave to others a job for which all were called: none for one who is alone. */
  standBackMs(random: Random): number {
    return random.ratio() * this.#otherCount * STAND_BACK_MS_EACH;
  }

  /** A choice that `tx` made. */
  note(tx: Transaction): void {
    this.#otherCount = Math.min(OTHER_COUNT_MAX, this.#otherCount + 1);
    tx.afterCommit(() => {
      this.#otherCount = Math.max(0, this.#otherCount - 1) * MEMORY;
    });
  }
}
