/**
 * Jobs of the queue that a node runs beside its slots, as the same worker: watchers of sources, followers of rules. Each runs on one node
 * of the cluster, and on another one when that node dies.
 */
import {
  abortWith,
  type Clock,
  Notifier,
  type Runtime,
  runTogether,
  waitAtMost,
} from "../../base/index.ts";
import {
  type HeldJob,
  type JobData,
  type Jobs,
  LOOK_AGAIN_SEC,
  type Membership,
} from "../../jobs/index.ts";
import type { KeyValueStore, Watch } from "../../kv/index.ts";
import type { ReplicatorConfig } from "../replicator-config.ts";

/** Jobs that are accepted in one transaction. There is no limit to all: what nobody watches would sleep on. */
const ACCEPTED_MAX = 100;
/** Signs of life in one activity timeout. */
const SIGNS_PER_TIMEOUT = 4;

export interface CompanionParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
  /** Read at each use. */
  readonly config: Pick<ReplicatorConfig, "activityTimeoutSec">;
}

/** What is done for the jobs of a type. */
export interface CompanionWork {
  readonly type: string;
  /** Runs a job until the signal aborts, and gives it back. Never rejects: a job that it cannot give back is found by its silence. */
  run(held: HeldJob, data: JobData, signal: AbortSignal): Promise<void>;
}

/** The loops of all such jobs, as one. */
export class Companions {
  readonly #all: readonly CompanionJobs[];

  constructor(parts: CompanionParts, works: readonly CompanionWork[]) {
    this.#all = works.map((work) => new CompanionJobs(parts, work));
  }

  /** While it drains, other nodes run these jobs. */
  setDraining(isDraining: boolean): void {
    for (const jobs of this.#all) jobs.setDraining(isDraining);
  }

  /** Runs jobs as this member of the workers, until the signal aborts or the member is expelled. */
  run({ id, expelled }: Membership, signal: AbortSignal): Promise<void> {
    const over = AbortSignal.any([signal, expelled]);
    return runTogether(
      over,
      this.#all.map((jobs) => (taskSignal) => jobs.run(id, taskSignal)),
    );
  }
}

/** Takes the jobs of one type that are due, and runs them. */
class CompanionJobs {
  readonly #parts: CompanionParts;
  readonly #clock: Clock;
  readonly #work: CompanionWork;
  readonly #running = new Set<Promise<void>>();
  readonly #changed = new Notifier();
  #stopping = new AbortController();

  constructor(parts: CompanionParts, work: CompanionWork) {
    this.#parts = parts;
    this.#clock = parts.runtime.clock;
    this.#work = work;
  }

  setDraining(isDraining: boolean): void {
    if (isDraining) this.#stopping.abort(new Error("The node drains"));
    else if (this.#stopping.signal.aborted) this.#stopping = new AbortController();
    this.#changed.notify();
  }

  async run(worker: string, over: AbortSignal): Promise<void> {
    const stop = new AbortController();
    const unfollow = abortWith(over, stop);
    try {
      while (!over.aborted) {
        if (this.#stopping.signal.aborted) await this.#changed.notified(over).catch(() => {});
        else await this.#accept(worker, stop.signal);
      }
    } finally {
      unfollow();
      stop.abort(new Error("The node stops"));
      await Promise.all(this.#running);
    }
  }

  async #accept(worker: string, signal: AbortSignal): Promise<void> {
    const { kv, jobs } = this.#parts;
    const { type } = this.#work;
    const dueBySec = Math.floor(this.#clock.nowMs() / 1000);
    const acceptance = await kv.transact((tx) =>
      jobs.accept(tx, type, { dueBySec, countMax: ACCEPTED_MAX, worker }),
    );
    if (acceptance.kind === "none-due") {
      await this.#wait(acceptance.enqueued, acceptance.firstDueSec, signal);
      return;
    }
    const stopped = AbortSignal.any([signal, this.#stopping.signal]);
    for (const [index, held] of acceptance.held.entries()) {
      const data = acceptance.jobs[index]?.data ?? {};
      const run = this.#work.run(held, data, stopped).finally(() => {
        this.#running.delete(run);
        this.#changed.notify();
      });
      this.#running.add(run);
    }
  }

  async #wait(
    enqueued: Watch,
    firstDueSec = Number.POSITIVE_INFINITY,
    signal: AbortSignal,
  ): Promise<void> {
    const dueInMs = Math.max(0, firstDueSec * 1000 - this.#clock.nowMs());
    await waitAtMost(this.#clock, Math.min(LOOK_AGAIN_SEC * 1000, dueInMs), signal, (over) =>
      Promise.race([enqueued.fired(over), this.#changed.notified(over)]),
    );
    enqueued.cancel();
  }
}

/** Shows that a companion's job lives, until the signal aborts. Rejects when the job was taken away. */
export async function showLife(
  { runtime, kv, jobs, config }: CompanionParts,
  held: HeldJob,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const pauseMs = (config.activityTimeoutSec * 1000) / SIGNS_PER_TIMEOUT;
    await runtime.clock.sleep(pauseMs, signal).catch(() => {});
    if (signal.aborted) return;
    await kv.transact((tx) => jobs.update(tx, held), { whenUnknown: "retry" });
  }
}
