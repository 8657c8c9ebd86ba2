/**
 * What a replication job keeps in the queue (RFC 016, "Job data"): what to copy, who asked for it, and what became of it.
 * It is plain JSON; times are milliseconds since the epoch.
 */
import type { Job, JobData } from "../../jobs/index.ts";
import type { SourceSequence } from "../endpoints/endpoint.ts";
import type { Replication } from "../request/replication.ts";
import { NO_STATISTICS, type ReplicationStatistics } from "./replication-statistics.ts";

/** The queue's type of all replication jobs. */
export const REPLICATION_JOB_TYPE = "replication";

/**
 * What became of a job's last run.
 *
 *   pending     it was asked to stop, or has not ended yet, or there was none
 *   crashing    it failed, and the job will be tried again
 *   completed   it came to the end of the changes; one-shot jobs only
 *   failed      it failed, and the job will not be tried again
 */
export type RunOutcome = "pending" | "crashing" | "completed" | "failed";

/** RFC 016's states. */
export type ReplicationState = RunOutcome | "running";

/** The state that is shown: whether a job runs is the queue's fact, the rest is what became of its last run. */
export function replicationState(
  { state }: Pick<Job, "state">,
  { state: outcome }: Pick<ReplicationJobData, "state">,
): ReplicationState {
  return state === "running" ? "running" : outcome;
}

/** Whether a job has ended, unless it is tried once more. */
export function hasEnded(state: ReplicationState): boolean {
  return state === "completed" || state === "failed";
}

export interface JobEvent {
  readonly type: "added" | "started" | "stopped" | "pending" | "crashed" | "stalled";
  readonly timeMs: number;
  readonly reason?: string;
}

/** Why a run ended, in CouchDB's words. */
export interface ReplicationFailure {
  readonly error: string;
  readonly reason: string;
}

/** The document that a persistent job comes from. */
export interface JobDocument {
  readonly database: string;
  readonly databaseUuid: string;
  readonly id: string;
}

export interface ReplicationJobData {
  /** Undefined when the document that asks for it is malformed. */
  readonly replication: Replication | undefined;
  /** Undefined for a transient job. */
  readonly document: JobDocument | undefined;
  readonly userName: string | null;
  /** Undefined until it was computed, which needs the source where a filter function is part of it. */
  readonly replicationId: string | undefined;
  readonly state: RunOutcome;
  readonly failure: ReplicationFailure | undefined;
  readonly errorCount: number;
  /** Runs in a row that were ended because they did not move; absent: none. */
  readonly stallCount?: number;
  readonly statistics: ReplicationStatistics;
  readonly checkpointedSequence: SourceSequence;
  readonly throughSequence: SourceSequence;
  readonly sourceSequence: SourceSequence;
  readonly changesPending: number | undefined;
  /** Newest first. */
  readonly history: readonly JobEvent[];
  /** What a completed one-shot job answers. */
  readonly result: Readonly<Record<string, unknown>> | undefined;
  readonly addedTimeMs: number;
  readonly lastUpdatedMs: number;
  readonly lastStartMs: number;
}

/** A job that has not run yet. */
export function newJobData(
  origin: Pick<ReplicationJobData, "replication" | "document" | "userName" | "replicationId">,
  nowMs: number,
): ReplicationJobData {
  return {
    ...origin,
    state: "pending",
    failure: undefined,
    errorCount: 0,
    statistics: NO_STATISTICS,
    checkpointedSequence: 0,
    throughSequence: 0,
    sourceSequence: 0,
    changesPending: undefined,
    history: [{ type: "added", timeMs: nowMs }],
    result: undefined,
    addedTimeMs: nowMs,
    lastUpdatedMs: nowMs,
    lastStartMs: 0,
  };
}

/** Adds events, given oldest first; the newest `lengthMax` are kept. */
export function withEvents(
  history: readonly JobEvent[],
  events: readonly JobEvent[],
  lengthMax: number,
): readonly JobEvent[] {
  return [...events.toReversed(), ...history].slice(0, lengthMax);
}

export function toJobData(data: ReplicationJobData): JobData {
  return data as unknown as JobData;
}

/** Absent members come back as undefined. */
export function fromJobData(data: JobData): ReplicationJobData {
  // Version 0.1 stored that a job ran, which its queue knows better.
  const current = data.state === "running" ? { ...data, state: "pending" } : data;
  return current as unknown as ReplicationJobData;
}

/** A re-created database has another uuid, and so its documents have other jobs. */
export function persistentJobId(databaseUuid: string, documentId: string): string {
  return `${databaseUuid}|${documentId}`;
}
