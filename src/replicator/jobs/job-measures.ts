/** How far behind jobs are, how fast they are, what holds them back, and their last runs: for those who look. */
import type { Runtime } from "../../base/index.ts";
import type { Jobs } from "../../jobs/index.ts";
import type { KeyValueStore, Subspace } from "../../kv/index.ts";
import { lagSec } from "./backlog.ts";
import { NEVER_SEC } from "./decide.ts";
import { HeldBack, type HeldBackBy } from "./held-back.ts";
import { type CopyRates, hasEnded } from "./job-data.ts";
import type { JobRun } from "./job-run.ts";
import type { JobRuns } from "./job-runs.ts";
import { changesPendingOf, type JobEntry } from "./job-views.ts";

export interface JobMeasuresParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly subspace: Subspace;
  readonly jobs: Jobs;
  readonly runs: JobRuns;
}

export interface JobMeasure extends CopyRates {
  /** The age of the oldest change that has not arrived, since it became known; null: nobody knows. */
  readonly lagSec: number | null;
  readonly behindSinceMs: number | undefined;
  /** Changes that have not arrived; null: nobody knows. */
  readonly pending: number | null;
  readonly heldBackBy: HeldBackBy | undefined;
  /** When a job that waits is due; undefined for one that runs, is paused or has ended. */
  readonly nextTryMs: number | undefined;
}

export class JobMeasures {
  readonly #parts: JobMeasuresParts;
  readonly #heldBack: HeldBack;

  constructor(parts: JobMeasuresParts) {
    this.#parts = parts;
    this.#heldBack = new HeldBack(parts.jobs, parts.subspace);
  }

  /** Of each of these jobs, in their order. */
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

  /** Since when a job is behind that is so for so long now. */
  behindSinceMs(behindSec: number): number {
    return Math.max(0, this.#parts.runtime.clock.nowMs() - behindSec * 1000);
  }

  /** The last runs of a job, newest first. */
  runs(jobId: string): Promise<readonly JobRun[]> {
    return this.#parts.kv.read((tx) => this.#parts.runs.list(tx, jobId));
  }
}

/** When a job that waits is due; undefined for one that runs, is paused or has ended. */
function nextTryMsOf({ state, scheduledAtSec }: JobEntry): number | undefined {
  const waits = state !== "running" && !hasEnded(state) && scheduledAtSec < NEVER_SEC;
  return waits ? scheduledAtSec * 1000 : undefined;
}
