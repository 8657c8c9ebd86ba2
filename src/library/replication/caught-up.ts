/**
 * Detects whether a run has copied everything, and counts the changes that it has not copied yet.
 */
import { type Clock, Notifier } from "../../base/index.ts";
import type { Endpoint, ReplicationRun } from "../../replicator/index.ts";

/** Interval between two requests for the number of pending changes while a run copies. */
const PENDING_INTERVAL_MS = 2_000;
/**
 * Time without changes after which a run counts as caught up although the source reports pending
 * changes. These might be changes that the replication does not select.
 */
const QUIET_MS = 1_000;

export interface CaughtUpParts {
  readonly clock: Clock;
  readonly run: Pick<ReplicationRun, "hasBegun" | "hasWork" | "quietSinceMs" | "progress">;
  readonly source: Pick<Endpoint, "pendingChangeCount">;
  /** Whether the counts are needed. Each count costs a request. */
  readonly isNeeded: () => boolean;
  readonly onChange: () => void;
}

export class CaughtUp {
  /** Changes after the through sequence, if known. */
  pendingChangeCount: number | undefined;
  isCaughtUp = false;
  readonly #parts: CaughtUpParts;
  readonly #progressed = new Notifier();

  constructor(parts: CaughtUpParts) {
    this.#parts = parts;
  }

  /** Notes that the run has made progress. Must be called each time. */
  look(): void {
    if (this.#parts.run.hasWork) this.isCaughtUp = false;
    this.#progressed.notify();
  }

  /**
   * Runs `work`, and meanwhile updates this object's public members. Errors of the source are
   * ignored.
   */
  async during<T>(work: () => Promise<T>): Promise<T> {
    const over = new AbortController();
    const watching = this.#watch(over.signal);
    try {
      return await work();
    } finally {
      over.abort(new Error("The run has ended"));
      await watching;
    }
  }

  async #watch(signal: AbortSignal): Promise<void> {
    const { clock, run, isNeeded } = this.#parts;
    while (!signal.aborted) {
      await this.#progressed.notified(signal).catch(() => {});
      if (signal.aborted || !run.hasBegun || !isNeeded()) continue;
      await this.#ask(signal);
      if (run.hasWork) await clock.sleep(PENDING_INTERVAL_MS, signal).catch(() => {});
    }
  }

  async #ask(signal: AbortSignal): Promise<void> {
    const { clock, run, source, onChange } = this.#parts;
    const { throughSequence } = run.progress;
    const { quietSinceMs } = run;
    const answer = await source.pendingChangeCount(throughSequence, signal).then(
      (count) => ({ count }),
      () => undefined,
    );
    if (signal.aborted) return;
    const pending = answer?.count;
    this.pendingChangeCount = pending;
    if (answer === undefined) {
      // A failed request does not mean that nothing is pending, so it is repeated.
      await clock.sleep(PENDING_INTERVAL_MS, signal).catch(() => {});
      this.#progressed.notify();
      return;
    }
    const isIdle = (): boolean => !run.hasWork && run.quietSinceMs === quietSinceMs;
    if (isIdle() && pending !== 0 && pending !== undefined) {
      // Wait for the run to begin copying the pending changes. It might not begin, because the
      // replication might select none of them.
      await clock.sleep(QUIET_MS, signal).catch(() => {});
    }
    if (!signal.aborted) this.isCaughtUp = isIdle();
    if (!signal.aborted) onChange();
  }
}
