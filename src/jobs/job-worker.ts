/**
 * Membership of a node in the list of workers, while it runs jobs.
 *
 *   register → renew the lease, watch the neighbour, run jobs → leave
 *                       │ expelled, or the lease was not renewed in time
 *                       └► all jobs stop → leave → register again
 *
 * The caller supplies the function that runs jobs. This function accepts jobs under the given
 * worker id and stops immediately when `expelled` aborts.
 */
import { errorCode, runTogether } from "../base/index.ts";
import type { JobType } from "./job.ts";
import { WorkerExpelledError } from "./jobs-errors.ts";
import { type Labels, NO_LABELS } from "./labels.ts";
import {
  type Lease,
  type LeaseEnding,
  type LeaseRenewer,
  RENEWALS_PER_LEASE,
  type ReadyRenewer,
} from "./lease.ts";
import type { Program, WorkerId } from "./worker.ts";
import { requeueAll, type WorkerRingParts, watchRing } from "./worker-ring.ts";

/**
 * Time limit for leaving. A worker that cannot reach the store is expelled when its lease expires.
 */
const LEAVE_MS_MAX = 2000;

export interface JobWorkerParts extends WorkerRingParts {
  readonly renewer: LeaseRenewer;
  /** Name of the node, for operators. */
  readonly node: string;
  readonly processId: string;
  readonly types: readonly JobType[];
  /** Labels of the worker. Default: none. */
  readonly labels?: Labels;
  readonly leaseMs: number;
  /** Program of the worker, announced to other nodes of the store. */
  readonly program?: Program | undefined;
}

/** A registration as a worker. */
export interface Membership {
  readonly id: WorkerId;
  /** Aborts when the worker must abandon all its jobs without further writes. */
  readonly expelled: AbortSignal;
}

export class JobWorker {
  readonly #parts: JobWorkerParts;

  constructor(parts: JobWorkerParts) {
    this.#parts = parts;
  }

  get labels(): Labels {
    return this.#parts.labels ?? NO_LABELS;
  }

  /**
   * Runs `work` as a member, and again under a new registration each time the member is expelled.
   * `work` must not settle before everything that it started has stopped. After `signal` aborts, it
   * stops gracefully; after expulsion, immediately. Jobs that the worker still holds are then
   * requeued.
   */
  async run(signal: AbortSignal, work: (membership: Membership) => Promise<void>): Promise<void> {
    const { clock, trace } = this.#parts.runtime;
    while (!signal.aborted) {
      try {
        await this.#serve(work);
      } catch (error) {
        if (errorCode(error) !== "JOBS_WORKER_EXPELLED") throw error;
        trace.event("jobs.worker-lost", (error as WorkerExpelledError).details);
        // Pauses before registering again, because the cause of the late renewal might persist.
        await clock.sleep(this.#parts.leaseMs / RENEWALS_PER_LEASE, signal).catch(() => {});
      }
    }
  }

  async #serve(work: (membership: Membership) => Promise<void>): Promise<void> {
    const renewer = await this.#parts.renewer.prepare();
    try {
      await this.#serveAsMember(renewer, work);
    } finally {
      await renewer.stop();
    }
  }

  async #serveAsMember(
    renewer: ReadyRenewer,
    work: (membership: Membership) => Promise<void>,
  ): Promise<void> {
    const { runtime, kv, jobs, node, processId, types, leaseMs, program } = this.#parts;
    const { labels } = this;
    const startedAtMs = runtime.clock.monotonicMs();
    const worker = await kv.transact(async (tx) =>
      jobs.workers.register(tx, { node, processId, types, labels, leaseMs, program }),
    );
    const { id } = worker;
    const ageMs = runtime.clock.monotonicMs() - startedAtMs;
    const lease = renewer.start({ worker: id, leaseMs, ageMs });
    runtime.trace.event("jobs.worker-registered", { worker: id, node, processId });
    const over = new AbortController();
    try {
      await runTogether(new AbortController().signal, [
        async (expelled) => {
          try {
            await work({ id, expelled });
          } finally {
            over.abort(new Error("The worker is leaving"));
          }
        },
        () => this.#watchLease(id, lease, over.signal),
        () => watchRing(this.#parts, worker, over.signal),
      ]);
    } finally {
      await renewer.stop();
      await this.#leave(id);
    }
  }

  /**
   * Rejects when the lease is lost. Also checks the clock: after a pause of the whole process, the
   * clock reveals the loss before any message does.
   */
  async #watchLease(id: WorkerId, lease: Lease, over: AbortSignal): Promise<void> {
    const { clock } = this.#parts.runtime;
    let cause: LeaseEnding = "lapsed";
    const ended = new AbortController();
    void lease.ended.then((ending) => {
      cause = ending;
      ended.abort(new Error("The lease ended"));
    });
    const wake = AbortSignal.any([over, ended.signal]);
    while (!wake.aborted && lease.remainingMs() > 0) {
      await clock.sleep(lease.remainingMs(), wake).catch(() => {});
    }
    if (over.aborted) return;
    throw new WorkerExpelledError(id, cause);
  }

  /** Deregisters the worker and requeues the jobs that it still holds. */
  async #leave(id: WorkerId): Promise<void> {
    const { runtime, kv, jobs } = this.#parts;
    try {
      await kv.transact((tx) => jobs.workers.expel(tx, id), {
        timeoutMs: LEAVE_MS_MAX,
        whenUnknown: "retry",
      });
      await requeueAll(this.#parts, id);
    } catch (error) {
      // Other workers will expel this worker when its lease expires.
      runtime.trace.event("jobs.worker-vanished", { worker: id, error: String(error) });
    }
  }
}
