/** Lag, speed and recent runs of jobs, and what holds the jobs back, for display. */
import type { Runtime } from "../../base/index.ts";
import type { Jobs } from "../../jobs/index.ts";
import type { KeyValueStore, Subspace } from "../../kv/index.ts";
import type { JobRun } from "../job-log/job-run.ts";
import type { JobRuns } from "../job-log/job-runs.ts";
import { AWAITING_SEC } from "../jobs/decide.ts";
import { type CopyRates, hasEnded } from "../jobs/job-data.ts";
import { lagSec } from "./backlog.ts";
import { HeldBack, type HeldBackBy } from "./held-back.ts";
import { changesPendingOf, type JobEntry } from "./job-views.ts";

export interface JobMeasuresParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly subspace: Subspace;
  readonly jobs: Jobs;
  readonly runs: JobRuns;
}

export interface JobMeasure extends CopyRates {
  /** Age of the oldest known pending change, in seconds; null if unknown. */
  readonly lagSec: number | null;
  readonly behindSinceMs: number | undefined;
  /** Number of pending changes; null if unknown. */
  readonly pending: number | null;
  readonly heldBackBy: HeldBackBy | undefined;
  /**
   * Due time of a waiting job; undefined if the job is running, paused, waiting for other jobs, or
   * ended.
   */
  readonly nextTryMs: number | undefined;
}

export class JobMeasures {
  readonly #parts: JobMeasuresParts;
  readonly #heldBack: HeldBack;

  constructor(parts: JobMeasuresParts) {
    this.#parts = parts;
    this.#heldBack = new HeldBack(parts.jobs, parts.subspace);
  }

  /** Returns the figures that are displayed for each job, in the order of `entries`. */
  async of(entries: readonly JobEntry[]): Promise<readonly JobMeasure[]> {
    const { runtime, kv } = this.#parts;
    const nowMs = runtime.clock.nowMs();
    const nowSec = Math.floor(nowMs / 1000);
    const facts = { nowSec, isStoreFull: kv.isFull() };
    const held = await kv.read((tx) => this.#heldBack.of(tx, entries, facts));
    return entries.map((entry, index): JobMeasure => {
      const { backlog, data } = entry;
      return {
        lagSec: backlog === undefined ? null : lagSec(backlog, nowMs),
        behindSinceMs: backlog?.sinceMs,
        pending: changesPendingOf(entry),
        ...data.rates,
        heldBackBy: held[index],
        nextTryMs: nextTryMsOf(entry),
      };
    });
  }

  /** Converts a lag in seconds to the time when it began, in milliseconds since the epoch. */
  behindSinceMs(behindSec: number): number {
    return Math.max(0, this.#parts.runtime.clock.nowMs() - behindSec * 1000);
  }

  /** Returns the last runs of a job, newest first. */
  runs(jobId: string): Promise<readonly JobRun[]> {
    return this.#parts.kv.read((tx) => this.#parts.runs.list(tx, jobId));
  }
}

/** Returns `JobMeasure.nextTryMs`. */
function nextTryMsOf({ state, scheduledAtSec }: JobEntry): number | undefined {
  const waits = state !== "running" && !hasEnded(state) && scheduledAtSec < AWAITING_SEC;
  return waits ? scheduledAtSec * 1000 : undefined;
}
