/** Forgets data that is too old to be read: a service of every node, so it also runs where no node runs jobs. */
import type { Runtime } from "../base/index.ts";
import type { Jobs } from "../jobs/index.ts";
import type { KeyValueStore } from "../kv/index.ts";
import { REPLICATION_JOB_TYPE } from "./jobs/job-data.ts";
import type { Replicator } from "./replicator.ts";
import type { ReplicatorConfig } from "./replicator-config.ts";

/** How often it looks for what is too old. */
const INTERVAL_MS = { min: 1000, max: 10 * 60_000 };
/** Ended transient jobs outlive their age by at most this part of it. */
const LATE_RATIO = 1 / 10;
/** How soon a shorter age takes effect. */
const TICK_MS = 1000;
/** Groups that are looked through each time, for those that are as if they had never been. */
const SWEPT_GROUPS_MAX = 200;

export interface CleanUpParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
  readonly replicator: Replicator;
  /** Read at each use. */
  readonly config: Pick<ReplicatorConfig, "transientJobAgeSecMax">;
}

export class CleanUp {
  readonly name = "replicator.clean-up";
  readonly #parts: CleanUpParts;
  #sweptGroup: string | undefined;

  constructor(parts: CleanUpParts) {
    this.#parts = parts;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#parts.runtime;
    let cleanedAtMs = clock.monotonicMs();
    while (!signal.aborted) {
      await clock.sleep(TICK_MS, signal).catch(() => {});
      if (signal.aborted || clock.monotonicMs() - cleanedAtMs < this.#intervalMs) continue;
      cleanedAtMs = clock.monotonicMs();
      await this.#parts.replicator.cleanUp();
      await this.#forgetGroups();
    }
  }

  get #intervalMs(): number {
    const wantedMs = this.#parts.config.transientJobAgeSecMax * 1000 * LATE_RATIO;
    return Math.min(Math.max(wantedMs, INTERVAL_MS.min), INTERVAL_MS.max);
  }

  /** A few each time: every node does it, and nothing waits for it. */
  async #forgetGroups(): Promise<void> {
    const { kv, jobs, runtime } = this.#parts;
    const page = { after: this.#sweptGroup, limit: SWEPT_GROUPS_MAX };
    const { last, forgottenCount } = await kv.transact(
      (tx) => jobs.idleGroups.forget(tx, REPLICATION_JOB_TYPE, page),
      { whenUnknown: "retry" },
    );
    this.#sweptGroup = last;
    if (forgottenCount > 0) runtime.trace.event("jobs.groups-forgotten", { forgottenCount });
  }
}
