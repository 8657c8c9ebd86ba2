/** Tracks the backlog of a held job: the stored backlog, and the measurements of this run. */
import { type Backlog, backlogToLeave, backlogToStore, lagSec } from "../job-lists/backlog.ts";

export class BacklogTracker {
  #stored: Backlog | undefined;
  /** Latest measurement of this run, if any. */
  #measured: Pick<Backlog, "sinceMs"> | undefined;

  get stored(): Backlog | undefined {
    return this.#stored;
  }

  /** Whether this run has found that all known changes have arrived at the target. */
  get isCaughtUp(): boolean {
    return this.#measured !== undefined && this.#measured.sinceMs === undefined;
  }

  noteStored(backlog: Backlog | undefined): void {
    this.#stored = backlog;
  }

  /**
   * Records a measurement. `sinceMs` is the time since which changes are pending; undefined if all
   * known changes have arrived.
   */
  noteMeasured(sinceMs: number | undefined): void {
    this.#measured = { sinceMs };
  }

  /** Returns the backlog to store while the job runs; undefined if it has not changed enough. */
  toStore(pending: number | undefined, nowMs: number): Backlog | undefined {
    const actual = this.#actual(pending, nowMs);
    return actual && backlogToStore(this.#stored, actual);
  }

  /** Returns the backlog to store when the run ends; undefined if it has not changed. */
  toLeave(pending: number | undefined, nowMs: number): Backlog | undefined {
    const actual = this.#actual(pending, nowMs);
    return actual && backlogToLeave(this.#stored, actual);
  }

  /** Lag in seconds; undefined while unknown. */
  lagSec(pending: number | undefined, nowMs: number): number | undefined {
    const known = this.#actual(pending, nowMs) ?? this.#stored;
    return known && lagSec(known, nowMs);
  }

  #actual(pending: number | undefined, nowMs: number): Backlog | undefined {
    return this.#measured && { ...this.#measured, pending, seenMs: nowMs };
  }
}
