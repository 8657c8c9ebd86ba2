/**
 * The scheduler of a node: takes due jobs from the queue while it has room, and runs them until they end or the node stops. It
 * does so as a worker of the queue; when that one is expelled, all jobs end at once and without another write.
 */
import { errorCode, type Runtime, waitAtMost } from "../base/index.ts";
import {
  type HeldJob,
  type Job,
  type Jobs,
  type JobWorker,
  type Membership,
  RunMeter,
  type WorkerId,
} from "../jobs/index.ts";
import type { KeyValueStore } from "../kv/index.ts";
import type { ReplicationJobParts } from "./held-replication.ts";
import { fromJobData, REPLICATION_JOB_TYPE } from "./job-data.ts";
import { ReplicationJob } from "./replication-job.ts";
import { StopRequest } from "./replication-run.ts";
import type { Replicator } from "./replicator.ts";

/** Jobs accepted in one transaction. */
const ACCEPT_ROWS_MAX = 20;
/** How long a job that comes due by its time, which no watch announces, may be overlooked. */
const IDLE_MS_MAX = 1000;
/** How soon groups are charged after one of their jobs ended; of those that go on, once in an instalment. */
const CHARGE_MS_MIN = 1000;
/** How often finished transient jobs are looked through. */
const CLEANUP_INTERVAL_MS = 10 * 60_000;

export class Scheduler {
  readonly name = "replicator.scheduler";
  readonly #runtime: Runtime;
  readonly #kv: KeyValueStore;
  readonly #jobs: Jobs;
  readonly #parts: ReplicationJobParts;
  readonly #replicator: Replicator;
  readonly #worker: JobWorker;
  readonly #running = new Map<HeldJob, Promise<void>>();
  readonly #meter: RunMeter;
  #chargedAtMs = 0;

  constructor(parts: ReplicationJobParts, replicator: Replicator, worker: JobWorker) {
    this.#runtime = parts.runtime;
    this.#kv = parts.kv;
    this.#jobs = parts.jobs;
    this.#parts = parts;
    this.#replicator = replicator;
    this.#worker = worker;
    this.#meter = new RunMeter(parts.runtime.clock, parts.config.fairShare.instalmentSec);
  }

  /** Runs jobs until aborted; then stops them in good order, each with a last checkpoint, and settles when all have ended. */
  run(signal: AbortSignal): Promise<void> {
    return this.#worker.run(signal, (membership) => this.#runAs(membership, signal));
  }

  async #runAs({ id, expelled }: Membership, signal: AbortSignal): Promise<void> {
    const stop = new AbortController();
    const onExpelled = (): void => stop.abort(expelled.reason);
    expelled.addEventListener("abort", onExpelled, { once: true });
    const over = AbortSignal.any([signal, expelled]);
    let cleanedAtMs = this.#runtime.clock.monotonicMs();
    try {
      while (!over.aborted) {
        await this.#charge();
        await this.#acceptDue(id, over, stop.signal);
        if (this.#runtime.clock.monotonicMs() - cleanedAtMs < CLEANUP_INTERVAL_MS) continue;
        await this.#replicator.removeOldTransients();
        cleanedAtMs = this.#runtime.clock.monotonicMs();
      }
    } catch (error) {
      if (errorCode(error) === "JOBS_WORKER_EXPELLED") stop.abort(error);
      throw error;
    } finally {
      // Without effect when the jobs were told to stop at once.
      stop.abort(new StopRequest());
      await Promise.all(this.#running.values());
      await this.#sendBill().catch((error: unknown) => {
        // The groups got a little run time for nothing; what ended the work is what the caller has to know.
        this.#runtime.trace.event("replication.not-charged", { error: String(error) });
      });
    }
  }

  /** Charges groups for what their jobs ran here: when one has ended, and once in an instalment. */
  async #charge(): Promise<void> {
    const sinceMs = this.#runtime.clock.monotonicMs() - this.#chargedAtMs;
    const instalmentMs = this.#parts.config.fairShare.instalmentSec * 1000;
    if (sinceMs < (this.#meter.hasEnded ? CHARGE_MS_MIN : instalmentMs)) return;
    this.#chargedAtMs = this.#runtime.clock.monotonicMs();
    await this.#sendBill();
  }

  async #sendBill(): Promise<void> {
    const bill = this.#meter.takeBill();
    if (bill.size === 0) return;
    await this.#kv.transact((tx) => this.#jobs.groups.charge(tx, REPLICATION_JOB_TYPE, bill), {
      whenUnknown: "check",
    });
  }

  /** One step: starts what is due and fits, or waits for a reason to look again. */
  async #acceptDue(worker: WorkerId, signal: AbortSignal, stop: AbortSignal): Promise<void> {
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
        worker,
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
    this.#meter.start(held, job.group);
    const replicationJob = new ReplicationJob(this.#parts, held, fromJobData(job.data));
    const ended = replicationJob
      .run(stop)
      .catch((error: unknown) => {
        // The store failed it: the queue finds the job by its silence.
        this.#runtime.trace.event("replication.abandoned", { id: held.id, error: String(error) });
      })
      .finally(() => {
        this.#running.delete(held);
        this.#meter.end(held);
      });
    this.#running.set(held, ended);
  }
}
