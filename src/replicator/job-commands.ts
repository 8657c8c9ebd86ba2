/** What an operator can do to one job, whichever node runs it. Every command is one transaction, and noted with the job. */
import type { Runtime } from "../base/index.ts";
import type { DatabaseRegistry } from "../databases/index.ts";
import type { Job, Jobs } from "../jobs/index.ts";
import type { KeyValueStore, Transaction } from "../kv/index.ts";
import type { SourceSequence } from "./endpoint.ts";
import {
  type ControlAction,
  type ControlEvent,
  type JobControl,
  type JobControls,
  NEVER_SEC,
} from "./job-control.ts";
import {
  fromJobData,
  REPLICATION_JOB_TYPE,
  type ReplicationJobData,
  toJobData,
} from "./job-data.ts";
import { removeJob } from "./remove-job.ts";
import { removeReplicationDocument } from "./replication-document.ts";
import type { ReplicationOwnership } from "./replication-ownership.ts";
import { NO_STATISTICS } from "./replication-statistics.ts";

/** Decisions read in one transaction. */
const PAGE_ROWS_MAX = 200;

export interface JobCommandsParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
  readonly controls: JobControls;
  readonly ownership: ReplicationOwnership;
  readonly databases: DatabaseRegistry;
}

/**
 *   done      the command took effect
 *   no-need   the job is so already
 *   ended     a job that has ended can be retried, reset and cancelled only
 *   paused    a job that rests has to be resumed first
 *   missing   there is no such job
 */
export type CommandOutcome = "done" | "no-need" | "ended" | "paused" | "missing";

export class JobCommands {
  readonly #parts: JobCommandsParts;

  constructor(parts: JobCommandsParts) {
    this.#parts = parts;
  }

  /** What was decided so far about each of these jobs. */
  async controls(jobIds: readonly string[]): Promise<readonly JobControl[]> {
    const { kv, controls } = this.#parts;
    const found: JobControl[] = [];
    for (let start = 0; start < jobIds.length; start += PAGE_ROWS_MAX) {
      const page = jobIds.slice(start, start + PAGE_ROWS_MAX);
      found.push(
        ...(await kv.read((tx) => Promise.all(page.map((jobId) => controls.get(tx, jobId))))),
      );
    }
    return found;
  }

  /** The job rests until it is resumed; one that runs writes a checkpoint first. */
  pause(jobId: string, userName: string | null): Promise<CommandOutcome> {
    return this.#command(jobId, async (tx, job, control) => {
      if (job.state === "finished") return "ended";
      if (control.isPaused) return "no-need";
      this.#decide(tx, job, control, "pause", userName);
      await this.#schedule(tx, job, NEVER_SEC);
      return "done";
    });
  }

  /** A job that rests is due at once. */
  resume(jobId: string, userName: string | null): Promise<CommandOutcome> {
    return this.#command(jobId, async (tx, job, control) => {
      if (!control.isPaused) return "no-need";
      this.#decide(tx, job, control, "resume", userName);
      await this.#schedule(tx, job, this.#nowSec());
      return "done";
    });
  }

  /** A job that waits, or that has ended, is due at once. */
  retry(jobId: string, userName: string | null): Promise<CommandOutcome> {
    return this.#command(jobId, async (tx, job, control) => {
      if (control.isPaused) return "paused";
      if (job.state === "running") return "no-need";
      this.#decide(tx, job, control, "retry", userName);
      await this.#schedule(tx, job, this.#nowSec(), restarted(job));
      return "done";
    });
  }

  /**
   * The job begins anew at this sequence of its source, 0 for the start, whatever its checkpoints say; its figures and
   * its errors are forgotten. What is on the target already is not sent again.
   */
  startFrom(
    jobId: string,
    sequence: SourceSequence,
    userName: string | null,
  ): Promise<CommandOutcome> {
    const action = sequence === 0 ? "reset" : "start-from";
    return this.#command(jobId, async (tx, job, control) => {
      this.#decide(tx, job, control, action, userName, sequence);
      const data = { ...restarted(job), statistics: NO_STATISTICS, errorCount: 0 };
      await this.#schedule(tx, job, control.isPaused ? NEVER_SEC : this.#nowSec(), data);
      return "done";
    });
  }

  /** Ends the job for good; the document of a persistent one is deleted. */
  cancel(jobId: string, userName: string | null): Promise<CommandOutcome> {
    return this.#command(jobId, async (tx, job) => {
      const { databases, runtime } = this.#parts;
      const data = fromJobData(job.data);
      const fields = { jobId, userName };
      tx.afterCommit(() => runtime.trace.event("replication.cancelled", fields));
      if (data.document !== undefined) {
        // The hook of the database removes the job with it.
        if (await removeReplicationDocument(tx, databases, data.document)) return "done";
      }
      await removeJob(this.#parts, tx, job);
      return "done";
    });
  }

  async #command(
    jobId: string,
    apply: (tx: Transaction, job: Job, control: JobControl) => Promise<CommandOutcome>,
  ): Promise<CommandOutcome> {
    const { kv, jobs, controls } = this.#parts;
    return kv.transact(
      async (tx) => {
        const job = await jobs.get(tx, { type: REPLICATION_JOB_TYPE, id: jobId });
        if (job === undefined) return "missing";
        return apply(tx, job, await controls.get(tx, jobId));
      },
      { whenUnknown: "check" },
    );
  }

  #decide(
    tx: Transaction,
    { id }: Job,
    control: JobControl,
    action: ControlAction,
    userName: string | null,
    since?: SourceSequence,
  ): void {
    const { controls, runtime } = this.#parts;
    const timeMs = runtime.clock.nowMs();
    const event: ControlEvent = { action, userName, timeMs };
    controls.decide(tx, id, control, since === undefined ? event : { ...event, since });
    tx.afterCommit(() =>
      runtime.trace.event("replication.controlled", { jobId: id, action, userName }),
    );
  }

  async #schedule(
    tx: Transaction,
    job: Job,
    dueAtSec: number,
    data?: ReplicationJobData,
  ): Promise<void> {
    await this.#parts.jobs.resubmit(tx, job, dueAtSec, data && toJobData(data));
  }

  #nowSec(): number {
    return Math.floor(this.#parts.runtime.clock.nowMs() / 1000);
  }
}

/** The data of a job that is to run once more: how it ended last is forgotten. */
function restarted({ data }: Job): ReplicationJobData {
  return { ...fromJobData(data), state: "pending", failure: undefined, result: undefined };
}
