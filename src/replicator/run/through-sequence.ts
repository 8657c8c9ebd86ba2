/**
 * The sequence up to which all batches are done (`couch_replicator_scheduler_job`'s through sequence).
 *
 * Copiers finish their batches in any order, and sequences are opaque, so batches are numbered when they leave the
 * queue. The through sequence is that of the last batch before the first unfinished one: only there may a checkpoint be
 * written.
 */
import { assert } from "../../base/index.ts";
import type { SourceSequence } from "../endpoints/endpoint.ts";

interface Batch {
  readonly sequence: SourceSequence;
  /** Changes in it. */
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

  /** The sequence of the last batch that was handed out. */
  get highest(): SourceSequence {
    return this.#highest;
  }

  /** Whether batches are handed out and not finished. */
  get hasOpen(): boolean {
    return this.#open.length > 0;
  }

  /** A batch of so many changes that ends at `sequence` is handed out; its number is for `finish`. */
  start(sequence: SourceSequence, count = 0): number {
    this.#highest = sequence;
    this.#open.push({ sequence, count, finished: false });
    return this.#firstNumber + this.#open.length - 1;
  }

  /**
   * The batch is on the target, or what of it is not is on the list of failures. Returns how many changes the through sequence has
   * passed by that.
   */
  finish(number: number): number {
    const batch = this.#open[number - this.#firstNumber];
    assert(batch !== undefined && !batch.finished, "A batch finishes once, after it started");
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
