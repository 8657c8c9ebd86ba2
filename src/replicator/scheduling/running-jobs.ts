/** The jobs that a node runs: started, told to stop, and waited for. */
import type { Clock, Runtime } from "../../base/index.ts";
import { type HeldJob, type Job, RunMeter } from "../../jobs/index.ts";
import { fromJobData, type ReplicationJobData } from "../jobs/job-data.ts";
import { WEIGHT } from "../request/replication-options.ts";
import type { ReplicationJobParts } from "../run/held-replication.ts";
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
    const data = fromJobData(job.data);
    const stop = new AbortController();
    this.meter.start(held, job.group);
    this.#runtime.trace.event("replication.accepted", { jobId: held.id });
    const ended = this.#run(held, data, stop.signal)
      .catch((error: unknown) => {
        // The store failed it: the queue finds the job by its silence.
        this.#runtime.trace.event("replication.abandoned", {
          jobId: held.id,
          error: String(error),
        });
      })
      .finally(() => {
        this.#runs.delete(held);
        this.meter.end(held);
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

  async #run(held: HeldJob, data: ReplicationJobData, signal: AbortSignal): Promise<void> {
    const jitterMs = this.#parts.config.startupJitterMs * this.#runtime.random.ratio();
    await new ReplicationJob(this.#parts, held, data, () => this.count).run(signal, jitterMs);
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

  /** Settles when one of them ends. */
  async anyEnded(): Promise<void> {
    await Promise.race(this.list().map(({ ended }) => ended));
  }
}
