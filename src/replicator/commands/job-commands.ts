/** Operator commands for jobs on any node. Each command is one transaction and is recorded. */
import { append, chunksOf, currentSec, forEachConcurrent, type Runtime } from "../../base/index.ts";
import type { DatabaseRegistry } from "../../databases/index.ts";
import type { Job } from "../../jobs/index.ts";
import type { KeyValueStore, Transaction } from "../../kv/index.ts";
import { removeReplicationDocuments } from "../documents/replication-document.ts";
import type { SourceSequence } from "../endpoints/endpoint.ts";
import { type RemoveJobParts, removeJob } from "../job-changes/remove-job.ts";
import { decideInput, type JobInput, type JobStep, NEVER_SEC, phaseOf } from "../jobs/decide.ts";
import type { ControlAction, ControlEvent, Decider, JobControl } from "../jobs/job-control.ts";
import {
  begunAnew,
  REPLICATION_JOB_TYPE,
  type ReplicationJobData,
  restarted,
} from "../jobs/job-data.ts";
import { decodeJob, encodeProgress, requestToStore } from "../jobs/job-data-record.ts";
import { describeJob, jobTrace } from "../jobs/job-trace.ts";

/** Number of jobs per transaction when reading operators' decisions. */
const PAGE_ROWS_MAX = 200;
/** Maximum number of jobs of a transaction that are changed concurrently. */
const CONCURRENT_MAX = 16;

export interface JobCommandsParts extends RemoveJobParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly databases: DatabaseRegistry;
}

/**
 * - done: the command took effect
 * - no-need: the job is already in the requested state
 * - ended: an ended job can only be retried, reset or cancelled
 * - paused: a paused job must be resumed first
 * - missing: there is no such job
 */
export type CommandOutcome = "done" | "no-need" | "ended" | "paused" | "missing";

/** Outcomes of a command, by job id. */
export type CommandOutcomes = ReadonlyMap<string, CommandOutcome>;

export class JobCommands {
  readonly #parts: JobCommandsParts;

  constructor(parts: JobCommandsParts) {
    this.#parts = parts;
  }

  /** Returns operators' decisions about each job, in the order of `jobIds`. */
  async controls(jobIds: readonly string[]): Promise<readonly JobControl[]> {
    const { kv, controls } = this.#parts;
    const found: JobControl[] = [];
    for (const page of chunksOf(jobIds, PAGE_ROWS_MAX)) {
      append(found, await kv.read((tx) => controls.getMany(tx, page)));
    }
    return found;
  }

  /** Pauses the job; a running one writes a checkpoint first. */
  pause(jobId: string, decider: Decider): Promise<CommandOutcome> {
    return this.#command(jobId, { ...decider, action: "pause" });
  }

  /** Resumes a paused job, and schedules it to run immediately. */
  resume(jobId: string, decider: Decider): Promise<CommandOutcome> {
    return this.#command(jobId, { ...decider, action: "resume" });
  }

  /** Schedules a waiting or ended job to run immediately. */
  retry(jobId: string, decider: Decider): Promise<CommandOutcome> {
    return this.#command(jobId, { ...decider, action: "retry" });
  }

  /**
   * Restarts the job from this sequence of its source (0 for the beginning), ignoring checkpoints.
   * Resets statistics and errors. Documents already on the target are not sent again.
   */
  startFrom(jobId: string, sequence: SourceSequence, decider: Decider): Promise<CommandOutcome> {
    const action = sequence === 0 ? "reset" : "start-from";
    return this.#command(jobId, { ...decider, action, since: sequence });
  }

  /** Removes the job and, if it is persistent, its document. */
  cancel(jobId: string, decider: Decider): Promise<CommandOutcome> {
    return this.#command(jobId, { ...decider, action: "cancel" });
  }

  /**
   * Applies a command to some jobs in the caller's transaction, concurrently. Returns the outcome
   * of each job. After `reset`, the jobs start from the beginning of their sources.
   */
  async applyToAll(
    tx: Transaction,
    jobIds: readonly string[],
    action: "pause" | "resume" | "retry" | "reset" | "cancel",
    decider: Decider,
  ): Promise<CommandOutcomes> {
    const start = action === "reset" ? { since: 0 } : {};
    const command = { ...decider, ...start, action };
    const outcomes = new Map<string, CommandOutcome>(jobIds.map((id) => [id, "missing"]));
    if (action === "cancel") {
      const found = await this.#parts.jobs.getMany(tx, REPLICATION_JOB_TYPE, jobIds);
      const removed = found.map((job) => ({ job, data: decodeJob(job) }));
      await this.#remove(tx, removed, command);
      for (const { id } of found) outcomes.set(id, "done");
      return outcomes;
    }
    await forEachConcurrent(jobIds, CONCURRENT_MAX, async (jobId) => {
      outcomes.set(jobId, await this.#apply(tx, jobId, command));
    });
    return outcomes;
  }

  #command(jobId: string, command: Command): Promise<CommandOutcome> {
    return this.#parts.kv.transact((tx) => this.#apply(tx, jobId, command));
  }

  async #apply(tx: Transaction, jobId: string, command: Command): Promise<CommandOutcome> {
    const { jobs, controls } = this.#parts;
    const job = await jobs.get(tx, { type: REPLICATION_JOB_TYPE, id: jobId });
    if (job === undefined) return "missing";
    const control = await controls.get(tx, jobId);
    const data = decodeJob(job);
    const step = decideInput(INPUTS[command.action], phaseOf(job, data), control.isPaused);
    return this.#carryOut(tx, step, { job, data }, { control, command });
  }

  async #carryOut(
    tx: Transaction,
    step: JobStep,
    decoded: DecodedJob,
    { control, command }: { readonly control: JobControl; readonly command: Command },
  ): Promise<CommandOutcome> {
    const { chains, jobs } = this.#parts;
    const { job, data } = decoded;
    const schedule = async (dueAtSec: number): Promise<"done"> => {
      this.#note(tx, decoded, control, command);
      await jobs.resubmit(tx, job, dueAtSec);
      return "done";
    };
    const scheduleAs = async (dueAtSec: number, after: ReplicationJobData): Promise<"done"> => {
      this.#note(tx, decoded, control, command);
      const request = requestToStore(job, after);
      await jobs.resubmit(tx, job, dueAtSec, encodeProgress(after), request);
      return "done";
    };
    switch (step) {
      case "nothing":
        return "no-need";
      case "refuse-ended":
        return "ended";
      case "refuse-paused":
        return "paused";
      case "pause":
        // A paused job must not be parked, because a watcher would wake it. The data of a running
        // job may only be changed by its worker.
        if (phaseOf(job, data) !== "parked") return schedule(NEVER_SEC);
        return scheduleAs(NEVER_SEC, restarted(data));
      case "due":
      case "due-soon":
        return schedule(await chains.dueSec(tx, job.id, data));
      case "again":
        // A retried job no longer waits for other jobs.
        await chains.end(tx, job.id, data);
        return scheduleAs(currentSec(this.#parts.runtime.clock), restarted(data));
      case "restart":
        return scheduleAs(await chains.dueSec(tx, job.id, data), begunAnew(data));
      case "restart-later":
        return scheduleAs(NEVER_SEC, begunAnew(data));
      case "replace":
      case "remove":
        await this.#remove(tx, [decoded], command);
        return "done";
    }
  }

  /** Records an operator's decision, and emits its event after the commit. */
  #note(
    tx: Transaction,
    { job: { id }, data }: DecodedJob,
    control: JobControl,
    command: Command,
  ): void {
    const { controls, runtime } = this.#parts;
    const { action, requestId: _, ...decision } = command;
    if (action === "cancel") return;
    const event: ControlEvent = { action, ...decision, timeMs: runtime.clock.nowMs() };
    controls.decide(tx, id, control, event);
    this.announce(tx, id, command, data);
  }

  /** Emits the event of an operator's decision after the commit. */
  announce(
    tx: Transaction,
    jobId: string,
    { action, userName, why, requestId, command }: Decider & { readonly action: string },
    data?: ReplicationJobData,
  ): void {
    const { trace } = this.#parts.runtime;
    const described = data ? jobTrace(trace, describeJob(jobId, data)) : trace;
    const fields = { jobId, action, userName, why, requestId, command };
    tx.afterCommit(() => described.event("replication.controlled", fields));
  }

  /** Removes jobs with their documents. Emits events after the commit. */
  async #remove(
    tx: Transaction,
    removed: readonly DecodedJob[],
    { userName, why, requestId, command }: Decider,
  ): Promise<void> {
    const { databases, runtime } = this.#parts;
    tx.afterCommit(() => {
      for (const { job, data } of removed) {
        const trace = jobTrace(runtime.trace, describeJob(job.id, data));
        const fields = { jobId: job.id, userName, why, requestId, command };
        trace.event("replication.cancelled", fields);
      }
    });
    // The hook of the documents' database would have to read the jobs again.
    for (const { job, data } of removed) await removeJob(this.#parts, tx, job, data);
    const documents = removed.flatMap(({ data }) => data.document ?? []);
    await removeReplicationDocuments(tx, databases, documents);
  }
}

interface DecodedJob {
  readonly job: Job;
  readonly data: ReplicationJobData;
}

interface Command extends Decider {
  readonly action: Exclude<ControlAction, "replace-credentials"> | "cancel";
  readonly since?: SourceSequence;
}

const INPUTS: Readonly<Record<Command["action"], JobInput>> = {
  pause: "pause",
  resume: "resume",
  retry: "retry",
  reset: "reset",
  "start-from": "reset",
  cancel: "cancel",
};
