/**
 * Jobs of several types that one worker accepts and runs as soon as they are due. Each job runs on
 * one worker. If that worker dies, another worker takes over the job.
 */
import {
  abortWith,
  type Clock,
  currentSec,
  Notifier,
  type Runtime,
  runTogether,
  waitAtMost,
} from "../base/index.ts";
import type { KeyValueStore, Watch } from "../kv/index.ts";
import type { HeldJob, Job } from "./job.ts";
import type { Membership } from "./job-worker.ts";
import type { Jobs } from "./jobs.ts";
import { LOOK_AGAIN_SEC } from "./pending-queue.ts";

/** Maximum number of jobs accepted per transaction. */
const ACCEPTED_MAX = 100;
/** Number of heartbeats per activity timeout. */
const SIGNS_PER_TIMEOUT = 4;

export interface SlotlessJobsParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
}

/** The implementation of one job type. */
export interface SlotlessJobType {
  readonly type: string;
  /** Maximum number of jobs that this worker runs concurrently. Default: no limit. */
  readonly countMax?: number;
  /**
   * Runs a job until the signal aborts, and returns it to the queue. Never rejects. If the job
   * cannot be returned, the activity timeout requeues it.
   */
  run(held: HeldJob, job: Job, signal: AbortSignal): Promise<void>;
}

/** Runs the jobs of all types. */
export class SlotlessJobs {
  readonly #all: readonly SlotlessJobsOfType[];

  constructor(parts: SlotlessJobsParts, works: readonly SlotlessJobType[]) {
    this.#all = works.map((work) => new SlotlessJobsOfType(parts, work));
  }

  /** Sets whether the node is draining. A draining node leaves slotless jobs to other nodes. */
  setDraining(isDraining: boolean): void {
    for (const jobs of this.#all) jobs.setDraining(isDraining);
  }

  /** Runs jobs as this worker, until the signal aborts or the worker is expelled. */
  run({ id, expelled }: Membership, signal: AbortSignal): Promise<void> {
    const over = AbortSignal.any([signal, expelled]);
    return runTogether(
      over,
      this.#all.map((jobs) => (taskSignal) => jobs.run(id, taskSignal)),
    );
  }
}

/** Accepts and runs due jobs of one type. */
class SlotlessJobsOfType {
  readonly #parts: SlotlessJobsParts;
  readonly #clock: Clock;
  readonly #work: SlotlessJobType;
  readonly #running = new Set<Promise<void>>();
  readonly #changed = new Notifier();
  #stopping = new AbortController();

  constructor(parts: SlotlessJobsParts, work: SlotlessJobType) {
    this.#parts = parts;
    this.#clock = parts.runtime.clock;
    this.#work = work;
  }

  setDraining(isDraining: boolean): void {
    if (isDraining) this.#stopping.abort(new Error("The node is draining"));
    else if (this.#stopping.signal.aborted) this.#stopping = new AbortController();
    this.#changed.notify();
  }

  async run(worker: string, over: AbortSignal): Promise<void> {
    const stop = new AbortController();
    const unfollow = abortWith(over, stop);
    try {
      while (!over.aborted) {
        if (this.#stopping.signal.aborted || this.#room() === 0) {
          await this.#changed.notified(stop.signal).catch(() => {});
        } else await this.#accept(worker, stop.signal);
      }
    } finally {
      unfollow();
      stop.abort(new Error("The node is stopping"));
      await Promise.all(this.#running);
    }
  }

  #room(): number {
    return Math.min(ACCEPTED_MAX, (this.#work.countMax ?? Infinity) - this.#running.size);
  }

  async #accept(worker: string, signal: AbortSignal): Promise<void> {
    const { kv, jobs } = this.#parts;
    const { type } = this.#work;
    const dueBySec = currentSec(this.#clock);
    const acceptance = await kv.transact((tx) =>
      jobs.accept(tx, type, { dueBySec, countMax: this.#room(), worker }),
    );
    if (acceptance.kind === "none-due") {
      await this.#wait(acceptance.enqueued, acceptance.firstDueSec, signal);
      return;
    }
    const stopped = AbortSignal.any([signal, this.#stopping.signal]);
    for (const [index, held] of acceptance.held.entries()) {
      const job = acceptance.jobs[index] as Job;
      const run = this.#work.run(held, job, stopped).finally(() => {
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

export interface HeartbeatParts extends SlotlessJobsParts {
  /** Settings for heartbeats, read at each use, so that changes apply immediately. */
  readonly config: { readonly activityTimeoutSec: number };
}

/** Sends heartbeats until the signal aborts. Rejects if the job is lost. */
export async function showLife(
  { runtime, kv, jobs, config }: HeartbeatParts,
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

/**
 * Runs `work` while sending heartbeats. The signal passed to `work` aborts when `stopped` aborts,
 * or when the job is lost.
 */
export async function whileAlive(
  parts: HeartbeatParts,
  held: HeldJob,
  stopped: AbortSignal,
  work: (signal: AbortSignal) => Promise<unknown>,
): Promise<void> {
  const over = new AbortController();
  const unfollow = abortWith(stopped, over);
  const life = showLife(parts, held, over.signal).catch((error) => over.abort(error));
  try {
    await work(over.signal);
  } finally {
    unfollow();
    over.abort(OVER);
    await life;
  }
}

/**
 * Abort reason, created once, because creating the default reason costs more than the abort itself.
 */
const OVER = new Error("The job has ended");
