/**
 * Tracks the sequence up to which all batches are finished. CouchDB calls it the through sequence
 * (`couch_replicator_scheduler_job`).
 *
 * Batches finish in any order, and sequences are opaque, so batches are numbered when they leave
 * the queue. The through sequence is that of the last batch before the first unfinished one. A
 * checkpoint must not be written at any other sequence.
 */
import { assert } from "../../base/index.ts";
import type { SourceSequence } from "../endpoints/endpoint.ts";

interface Batch {
  readonly sequence: SourceSequence;
  /** Number of changes. */
  readonly count: number;
  finished: boolean;
}

export class ThroughSequence {
  readonly #open: Batch[] = [];
  #firstNumber = 0;
  #through: SourceSequence;
  #highest: SourceSequence;

  constructor(start: SourceSequence) {
    this.#through = start;
    this.#highest = start;
  }

  /** The sequence up to which every batch is finished. */
  get through(): SourceSequence {
    return this.#through;
  }

  /** The sequence of the last batch started. */
  get highest(): SourceSequence {
    return this.#highest;
  }

  /** Whether any batch is unfinished. */
  get hasOpen(): boolean {
    return this.#open.length > 0;
  }

  /**
   * Starts a batch of `count` changes that ends at `sequence`. Returns the batch number, which is
   * later passed to `finish`.
   */
  start(sequence: SourceSequence, count = 0): number {
    this.#highest = sequence;
    this.#open.push({ sequence, count, finished: false });
    return this.#firstNumber + this.#open.length - 1;
  }

  /**
   * Marks a batch as finished: all its revisions are on the target or on the list of failures.
   * Returns the number of changes by which the through sequence advances.
   */
  finish(number: number): number {
    const batch = this.#open[number - this.#firstNumber];
    assert(
      batch !== undefined && !batch.finished,
      "A batch must be started, and finished only once",
    );
    batch.finished = true;
    let passedCount = 0;
    for (let first = this.#open[0]; first?.finished === true; first = this.#open[0]) {
      this.#through = first.sequence;
      passedCount += first.count;
      this.#open.shift();
      this.#firstNumber++;
    }
    return passedCount;
  }
}
