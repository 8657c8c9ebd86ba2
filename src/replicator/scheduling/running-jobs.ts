/** The jobs running on a node: starts and stops them, and waits until they have ended. */
import { type Clock, Notifier, type Runtime, type Trace } from "../../base/index.ts";
import { WEIGHT } from "../../contract/index.ts";
import { type HeldJob, type Job, JobHaltedError, RunMeter } from "../../jobs/index.ts";
import type { ReplicatorConfig } from "../replicator-config.ts";
import type { ReplicationJob } from "../run/replication-job.ts";
import { StopRequest } from "../run/replication-run.ts";
import type { RunningJob } from "./choose-stops.ts";

/**
 * Creates the run of an accepted job. `runningCount` returns the number of jobs running on the
 * node, including this one. Throws if a newer version stored the job in an unknown format.
 */
export type OpenJob = (
  held: HeldJob,
  job: Job,
  runningCount: () => number,
) => Pick<ReplicationJob, "replication" | "run" | "trace">;

interface Run extends RunningJob {
  readonly stop: AbortController;
  readonly ended: Promise<void>;
  isStopping: boolean;
}

export class RunningJobs {
  readonly #runtime: Runtime;
  readonly #clock: Clock;
  readonly #config: ReplicatorConfig;
  readonly #openJob: OpenJob;
  readonly #runs = new Map<HeldJob, Run>();
  /** Aborts when all runs have to end because the node gives its jobs back to the queue. */
  #leaving = new AbortController();
  /** Notified when a run has ended. */
  readonly ended = new Notifier();
  /** Measures the run time to be charged to groups. */
  readonly meter: RunMeter;

  constructor(runtime: Runtime, config: ReplicatorConfig, openJob: OpenJob) {
    this.#runtime = runtime;
    this.#clock = runtime.clock;
    this.#config = config;
    this.#openJob = openJob;
    this.meter = new RunMeter(this.#clock, config.fairShare.instalmentSec);
  }

  get count(): number {
    return this.#runs.size;
  }

  list(): readonly Run[] {
    return [...this.#runs.values()];
  }

  start(held: HeldJob, job: Job): void {
    const opened = this.#open(held, job);
    if (opened === undefined) return;
    const { replication, trace } = opened;
    const stop = new AbortController();
    this.meter.start(held, job.group);
    trace.event("replication.accepted", { jobId: held.id });
    const ended = this.#run(opened, stop.signal, this.#leaving.signal)
      // The run's promise rejects only if the store fails.
      .catch((error: unknown) => reportLoss(trace, held, error))
      .finally(() => {
        this.#runs.delete(held);
        this.meter.end(held);
        this.ended.notify();
      });
    this.#runs.set(held, {
      group: job.group,
      isContinuous: replication?.continuous === true,
      labels: job.labels,
      startedAtMs: this.#clock.monotonicMs(),
      weight: replication?.weight ?? WEIGHT.default,
      stop,
      ended,
      isStopping: false,
    });
  }

  /**
   * Opens a job. Returns undefined if a newer version stored it in an unknown format, which other
   * nodes might support.
   */
  #open(held: HeldJob, job: Job): ReturnType<OpenJob> | undefined {
    try {
      return this.#openJob(held, job, () => this.count);
    } catch (error) {
      reportLoss(this.#runtime.trace, held, error);
      return undefined;
    }
  }

  async #run(job: ReturnType<OpenJob>, signal: AbortSignal, leaving: AbortSignal): Promise<void> {
    const jitterMs = this.#config.startupJitterMs * this.#runtime.random.ratio();
    await job.run(signal, leaving, jitterMs);
  }

  /**
   * Asks the runs to stop. Each run writes a last checkpoint, and its job is due again immediately.
   */
  stop(runs: Iterable<Run>): void {
    for (const run of runs) {
      run.isStopping = true;
      run.stop.abort(new StopRequest());
    }
  }

  /** Ends the runs of jobs whose database or rule was deleted, without further writes. */
  halt(idPrefix: string): void {
    for (const [held, run] of this.#runs) {
      if (!held.id.startsWith(idPrefix)) continue;
      run.isStopping = true;
      run.stop.abort(new JobHaltedError(held));
    }
  }

  /**
   * Aborts the run that holds `lock`; the run writes nothing more. Resolves when the run has ended.
   */
  async haltRun({ jobId, lock }: { readonly jobId: string; readonly lock: string }): Promise<void> {
    for (const [held, run] of this.#runs) {
      if (held.id !== jobId || held.lock !== lock) continue;
      run.isStopping = true;
      run.stop.abort(new JobHaltedError(held));
      await run.ended;
    }
  }

  /**
   * Ends all runs with `reason`, except runs that are already stopping. Settles when all runs have
   * ended.
   */
  async end(reason: unknown): Promise<void> {
    const runs = this.list();
    this.#leaving.abort(reason);
    this.#leaving = new AbortController();
    for (const { stop } of runs) stop.abort(reason);
    await Promise.all(runs.map(({ ended }) => ended));
  }
}

/**
 * Reports a run that could not return its job to the queue. After the activity timeout, the queue
 * makes the job due again.
 */
function reportLoss(trace: Trace, { id: jobId }: HeldJob, error: unknown): void {
  trace.event("replication.abandoned", { jobId, error: String(error) });
}
