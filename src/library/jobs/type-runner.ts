/** Runs the accepted jobs of a type with the caller's function. */
import { abortWith, currentSec, errorCode } from "../../base/index.ts";
import {
  FAIR_SHARE_DEFAULT,
  type HeldJob,
  type Job,
  type JobData,
  type Jobs,
  RunMeter,
  type SlotlessJobsParts,
  type SlotlessJobType,
  showLife,
} from "../../jobs/index.ts";
import type { Transaction } from "../../kv/index.ts";

const RETRY_SEC = 60;
/** Interval for charging groups for the run time of their jobs. */
const CHARGE_MS = 5_000;
const COUNT_MAX = 10;

/** A job type, and the function that runs its jobs. */
export interface JobHandler {
  readonly type: string;
  /** Time without a heartbeat after which a job returns to the queue. Default: 60. */
  readonly timeoutSec?: number;
  /** Maximum number of jobs of the type that this worker runs concurrently. Default: 10. */
  readonly concurrency?: number;
  /** Pause before a job runs again after a failed run. Default: 60. */
  readonly retrySec?: number;
  /**
   * Runs a job. When `run` returns, the job finishes with the returned data, unless `transact` has
   * already finished the job. If `run` throws, the job runs again after `retrySec`.
   */
  run(job: RunningJob): Promise<JobData | undefined>;
  /** Called with errors of `run` other than the loss of the job. */
  onError?(error: unknown, job: Pick<Job, "type" | "id">): void;
}

/** A job during its run. Heartbeats are sent automatically. */
export interface RunningJob extends Pick<Job, "type" | "id" | "data" | "group" | "request"> {
  /** Aborts when the job is lost or the worker stops. `run` must then return or throw. */
  readonly signal: AbortSignal;
  /**
   * Runs `body` in a transaction that fails if the job is lost, so that a run whose job was taken
   * over writes nothing.
   */
  transact<T>(body: (tx: Transaction, job: JobInTransaction) => Promise<T>): Promise<T>;
}

/** Changes of the job within a transaction. */
export interface JobInTransaction {
  /** Replaces the data of the job. */
  update(data: JobData): Promise<void>;
  /** Finishes the job in this transaction. The transaction's writes then happen exactly once. */
  finish(data?: JobData): Promise<void>;
  /** Ends this run, and runs the job again at this time, in seconds since the epoch. */
  runAgain(scheduledAtSec: number, data?: JobData): Promise<void>;
}

export class TypeRunner implements SlotlessJobType {
  readonly type: string;
  readonly countMax: number;
  readonly #parts: SlotlessJobsParts;
  readonly #jobs: Jobs;
  readonly #work: JobHandler;
  readonly #timeoutSec: number;
  readonly #meter: RunMeter;

  constructor(parts: SlotlessJobsParts, work: JobHandler, timeoutSecDefault: number) {
    const { type, concurrency = COUNT_MAX, timeoutSec = timeoutSecDefault } = work;
    this.type = type;
    this.countMax = concurrency;
    this.#parts = parts;
    this.#jobs = parts.jobs;
    this.#work = work;
    this.#timeoutSec = timeoutSec;
    this.#meter = new RunMeter(parts.runtime.clock, FAIR_SHARE_DEFAULT.instalmentSec);
  }

  /** Charges groups for run time, until the signal aborts. */
  async charge(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#parts.runtime.clock.sleep(CHARGE_MS, signal).catch(() => {});
      const bill = this.#meter.takeBill();
      if (bill.size > 0)
        await this.#transact((tx) => this.#jobs.groups.charge(tx, this.type, bill));
    }
  }

  async run(held: HeldJob, job: Job, stopped: AbortSignal): Promise<void> {
    this.#meter.start(held, job.group);
    const over = new AbortController();
    const unfollow = abortWith(stopped, over);
    const ended = new AbortController();
    const config = { activityTimeoutSec: this.#timeoutSec };
    const life = showLife({ ...this.#parts, config }, held, ended.signal).catch((error: unknown) =>
      over.abort(error),
    );
    const state = { isSettled: false };
    try {
      const data = await this.#work.run(this.#runningJob(held, job, over.signal, state));
      if (!state.isSettled)
        await this.#transact((tx) => this.#jobs.finish(tx, held, data ?? undefined));
    } catch (error) {
      await this.#fail(error, held, stopped, state.isSettled).catch(() => {
        // Ignore the error: the activity monitor or another worker will requeue the job.
      });
    } finally {
      this.#meter.end(held);
      unfollow();
      ended.abort(new Error("The run has ended"));
      await life;
    }
  }

  #runningJob(
    held: HeldJob,
    { type, id, data, group, request }: Job,
    signal: AbortSignal,
    state: { isSettled: boolean },
  ): RunningJob {
    const settle = (tx: Transaction): void =>
      tx.afterCommit(() => {
        state.isSettled = true;
      });
    return {
      type,
      id,
      data,
      group,
      request,
      signal,
      transact: (body) =>
        this.#transact(async (tx) => {
          await this.#jobs.verify(tx, held);
          return body(tx, {
            update: (next) => this.#jobs.update(tx, held, next),
            finish: async (next) => {
              await this.#jobs.finish(tx, held, next);
              settle(tx);
            },
            runAgain: async (scheduledAtSec, next) => {
              await this.#jobs.resubmit(tx, held, scheduledAtSec, next);
              await this.#jobs.finish(tx, held);
              settle(tx);
            },
          });
        }),
    };
  }

  /** Returns the job to the queue: immediately if the worker stops, otherwise after a pause. */
  async #fail(error: unknown, held: HeldJob, stopped: AbortSignal, isSettled: boolean) {
    const { type, id } = held;
    if (errorCode(error) === "JOBS_HALTED") return;
    if (!stopped.aborted) this.#work.onError?.(error, { type, id });
    if (isSettled) return;
    const nowSec = currentSec(this.#parts.runtime.clock);
    const dueSec = stopped.aborted ? nowSec : nowSec + (this.#work.retrySec ?? RETRY_SEC);
    await this.#transact(async (tx) => {
      await this.#jobs.resubmit(tx, held, dueSec);
      await this.#jobs.finish(tx, held);
    });
  }

  #transact<T>(body: (tx: Transaction) => Promise<T>): Promise<T> {
    return this.#parts.kv.transact(body);
  }
}
