/** The jobs that a node runs: started, told to stop, and waited for. */
import { type Clock, Notifier, type Runtime } from "../../base/index.ts";
import { type HeldJob, type Job, RunMeter } from "../../jobs/index.ts";
import { WEIGHT } from "../request/replication-options.ts";
import { HeldReplication, type ReplicationJobParts } from "../run/held-replication.ts";
import { ReplicationJob } from "../run/replication-job.ts";
import { StopRequest } from "../run/replication-run.ts";
import type { RunningJob } from "./choose-stops.ts";

interface Run extends RunningJob {
  readonly stop: AbortController;
  readonly ended: Promise<void>;
  isStopping: boolean;
}

export class RunningJobs {
  readonly #runtime: Runtime;
  readonly #clock: Clock;
  readonly #parts: ReplicationJobParts;
  readonly #runs = new Map<HeldJob, Run>();
  /** Notified when one of them has ended. */
  readonly ended = new Notifier();
  /** What the groups of these jobs owe for them. */
  readonly meter: RunMeter;

  constructor(parts: ReplicationJobParts) {
    this.#runtime = parts.runtime;
    this.#clock = parts.runtime.clock;
    this.#parts = parts;
    this.meter = new RunMeter(this.#clock, parts.config.fairShare.instalmentSec);
  }

  get count(): number {
    return this.#runs.size;
  }

  /** As they are now. */
  list(): readonly Run[] {
    return [...this.#runs.values()];
  }

  start(held: HeldJob, job: Job): void {
    const replication = this.#open(held, job);
    if (replication === undefined) return;
    const { data } = replication;
    const stop = new AbortController();
    this.meter.start(held, job.group);
    this.#runtime.trace.event("replication.accepted", { jobId: held.id });
    const ended = this.#run(replication, stop.signal)
      // The store failed it.
      .catch((error: unknown) => this.#abandon(held, error))
      .finally(() => {
        this.#runs.delete(held);
        this.meter.end(held);
        this.ended.notify();
      });
    this.#runs.set(held, {
      group: job.group,
      isContinuous: data.replication?.continuous === true,
      startedAtMs: this.#clock.monotonicMs(),
      weight: data.replication?.weight ?? WEIGHT.default,
      stop,
      ended,
      isStopping: false,
    });
  }

  /** Undefined for a job that a newer version stored, in a format that this one does not know: another node may. */
  #open(held: HeldJob, job: Job): HeldReplication | undefined {
    try {
      return new HeldReplication(this.#parts, held, job);
    } catch (error) {
      this.#abandon(held, error);
      return undefined;
    }
  }

  /** The queue finds the job by its silence. */
  #abandon({ id: jobId }: HeldJob, error: unknown): void {
    this.#runtime.trace.event("replication.abandoned", { jobId, error: String(error) });
  }

  async #run(replication: HeldReplication, signal: AbortSignal): Promise<void> {
    const jitterMs = this.#parts.config.startupJitterMs * this.#runtime.random.ratio();
    await new ReplicationJob(replication, () => this.count).run(signal, jitterMs);
  }

  /** Each writes a last checkpoint, and is due again at once. */
  stop(runs: Iterable<Run>): void {
    for (const run of runs) {
      run.isStopping = true;
      run.stop.abort(new StopRequest());
    }
  }

  /** Ends all of them as `reason` says, if they were not told before; settles when they have. */
  async end(reason: unknown): Promise<void> {
    const runs = this.list();
    for (const { stop } of runs) stop.abort(reason);
    await Promise.all(runs.map(({ ended }) => ended));
  }
}
