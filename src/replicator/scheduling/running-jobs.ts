/** The jobs that a node runs: starts them, asks them to stop, and waits for them. */
import { type Clock, Notifier, type Runtime, type Trace } from "../../base/index.ts";
import { WEIGHT } from "../../contract/index.ts";
import { type HeldJob, type Job, JobHaltedError, RunMeter } from "../../jobs/index.ts";
import type { ReplicatorConfig } from "../replicator-config.ts";
import type { ReplicationJob } from "../run/replication-job.ts";
import { StopRequest } from "../run/replication-run.ts";
import type { RunningJob } from "./choose-stops.ts";

/**
 * Makes a job, which does not run yet, of one that was accepted. `runningCount` tells how many jobs the node runs, this one among
 * them. Throws for a job that a newer version stored, in a format that this one does not know.
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
  /** Aborts when the node ends all of them: another one is to have them. */
  #leaving = new AbortController();
  /** Notified when one of them has ended. */
  readonly ended = new Notifier();
  /** What the groups of these jobs owe for them. */
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

  /** As they are now. */
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
      // The store failed it.
      .catch((error: unknown) => reportLoss(trace, held, error))
      .finally(() => {
        this.#runs.delete(held);
        this.meter.end(held);
        this.ended.notify();
      });
    this.#runs.set(held, {
      group: job.group,
      isContinuous: replication?.continuous === true,
      startedAtMs: this.#clock.monotonicMs(),
      weight: replication?.weight ?? WEIGHT.default,
      stop,
      ended,
      isStopping: false,
    });
  }

  /** Undefined for a job that a newer version stored, in a format that this one does not know: another node may. */
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

  /** Each writes a last checkpoint, and is due again at once. */
  stop(runs: Iterable<Run>): void {
    for (const run of runs) {
      run.isStopping = true;
      run.stop.abort(new StopRequest());
    }
  }

  /** Ends those of a deleted database or rule, without another write. */
  halt(idPrefix: string): void {
    for (const [held, run] of this.#runs) {
      if (!held.id.startsWith(idPrefix)) continue;
      run.isStopping = true;
      run.stop.abort(new JobHaltedError(held));
    }
  }

  /** Ends the run that holds this lock, without another write; settles when it has ended. */
  async haltRun({ jobId, lock }: { readonly jobId: string; readonly lock: string }): Promise<void> {
    for (const [held, run] of this.#runs) {
      if (held.id !== jobId || held.lock !== lock) continue;
      run.isStopping = true;
      run.stop.abort(new JobHaltedError(held));
      await run.ended;
    }
  }

  /** Ends all of them as `reason` says, if they were not told before; settles when they have. */
  async end(reason: unknown): Promise<void> {
    const runs = this.list();
    this.#leaving.abort(reason);
    this.#leaving = new AbortController();
    for (const { stop } of runs) stop.abort(reason);
    await Promise.all(runs.map(({ ended }) => ended));
  }
}

/** Nothing is written: the queue takes the job back when its activity timeout is over. */
function reportLoss(trace: Trace, { id: jobId }: HeldJob, error: unknown): void {
  trace.event("replication.abandoned", { jobId, error: String(error) });
}
