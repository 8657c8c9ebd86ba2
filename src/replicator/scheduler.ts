/**
 * The scheduler of a node: takes due jobs from the queue while it has room, and runs them until they end or the node stops.
 */
import { type Runtime, waitAtMost } from "../base/index.ts";
import type { HeldJob, Job, Jobs } from "../jobs/index.ts";
import type { KeyValueStore } from "../kv/index.ts";
import { fromJobData, REPLICATION_JOB_TYPE } from "./job-data.ts";
import { ReplicationJob, type ReplicationJobParts } from "./replication-job.ts";
import { StopRequest } from "./replication-run.ts";
import type { Replicator } from "./replicator.ts";

/** Jobs accepted in one transaction. */
const ACCEPT_ROWS_MAX = 20;
/** How long a job that comes due by its time, which no watch announces, may be overlooked. */
const IDLE_MS_MAX = 1000;
/** How often finished transient jobs are looked through. */
const CLEANUP_INTERVAL_MS = 10 * 60_000;

export class Scheduler {
  readonly name = "replicator.scheduler";
  readonly #runtime: Runtime;
  readonly #kv: KeyValueStore;
  readonly #jobs: Jobs;
  readonly #parts: ReplicationJobParts;
  readonly #replicator: Replicator;
  readonly #running = new Map<HeldJob, Promise<void>>();

  constructor(parts: ReplicationJobParts, replicator: Replicator) {
    this.#runtime = parts.runtime;
    this.#kv = parts.kv;
    this.#jobs = parts.jobs;
    this.#parts = parts;
    this.#replicator = replicator;
  }

  /** Runs jobs until aborted; then stops them in good order, each with a last checkpoint, and settles when all have ended. */
  async run(signal: AbortSignal): Promise<void> {
    const stop = new AbortController();
    let cleanedAtMs = this.#runtime.clock.monotonicMs();
    try {
      while (!signal.aborted) {
        await this.#acceptDue(signal, stop.signal);
        if (this.#runtime.clock.monotonicMs() - cleanedAtMs < CLEANUP_INTERVAL_MS) continue;
        await this.#replicator.removeOldTransients();
        cleanedAtMs = this.#runtime.clock.monotonicMs();
      }
    } finally {
      stop.abort(new StopRequest());
      await Promise.all(this.#running.values());
    }
  }

  /** One step: starts what is due and fits, or waits for a reason to look again. */
  async #acceptDue(signal: AbortSignal, stop: AbortSignal): Promise<void> {
    const { clock } = this.#runtime;
    const room = this.#parts.config.jobsMax - this.#running.size;
    if (room <= 0) {
      const anyEnded = () => Promise.race(this.#running.values());
      await waitAtMost(clock, IDLE_MS_MAX, signal, anyEnded);
      return;
    }
    const acceptance = await this.#kv.transact((tx) =>
      this.#jobs.accept(tx, REPLICATION_JOB_TYPE, {
        dueBySec: Math.floor(clock.nowMs() / 1000),
        countMax: Math.min(room, ACCEPT_ROWS_MAX),
      }),
    );
    if (acceptance.kind === "none-due") {
      const { enqueued } = acceptance;
      await waitAtMost(clock, IDLE_MS_MAX, signal, (over) => enqueued.fired(over));
      enqueued.cancel();
      return;
    }
    for (const [index, held] of acceptance.held.entries()) {
      this.#start(held, acceptance.jobs[index] as Job, stop);
    }
  }

  #start(held: HeldJob, job: Job, stop: AbortSignal): void {
    const replicationJob = new ReplicationJob(this.#parts, held, fromJobData(job.data));
    const ended = replicationJob
      .run(stop)
      .catch((error: unknown) => {
        // The store failed it: the queue finds the job by its silence.
        this.#runtime.trace.event("replication.abandoned", { id: held.id, error: String(error) });
      })
      .finally(() => this.#running.delete(held));
    this.#running.set(held, ended);
  }
}
