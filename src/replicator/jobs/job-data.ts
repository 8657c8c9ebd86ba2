/**
 * What a replication job keeps in the queue (RFC 016, "Job data"): what to copy, who asked for it, and what became of it. How it is
 * stored, `job-data-record.ts` says. Times are milliseconds since the epoch.
 *
 * It is a value. Whatever happens to a job has a function here that makes the next value; nobody else changes members of it.
 */
import type { Authority } from "../../databases/index.ts";
import type { WaitReason } from "../../http-client/index.ts";
import type { Job } from "../../jobs/index.ts";
import type { SourceSequence, StartTimes } from "../endpoints/endpoint.ts";
import type { Replication } from "../request/replication.ts";
import {
  type Failing,
  type FailureCause,
  failingAfter,
  type ReplicationFailure,
} from "./failing.ts";
import {
  addStatistics,
  NO_STATISTICS,
  type ReplicationStatistics,
} from "./replication-statistics.ts";

/** The queue's type of all replication jobs. */
export const REPLICATION_JOB_TYPE = "replication";

/**
 * What became of a job's last run.
 *
 *   pending     it was asked to stop, or has not ended yet, or there was none
 *   parked      nothing was left to copy, and the source was quiet; the job waits for a change (`parking/`)
 *   crashing    it failed, and the job will be tried again
 *   completed   it came to the end of the changes; one-shot jobs only. `result` is what its caller is answered
 *   failed      it failed, and the job will not be tried again
 */
export type JobOutcome =
  | {
      readonly state: "pending" | "parked";
      readonly failure: undefined;
      readonly result: undefined;
    }
  | {
      readonly state: "crashing" | "failed";
      readonly failure: ReplicationFailure;
      readonly result: undefined;
    }
  | {
      readonly state: "completed";
      readonly failure: undefined;
      readonly result: Readonly<Record<string, unknown>>;
    };

export type RunOutcome = JobOutcome["state"];

const PENDING: JobOutcome = { state: "pending", failure: undefined, result: undefined };
const PARKED: JobOutcome = { ...PENDING, state: "parked" };
/** Of what failed for a reason that nobody knows. */
const UNKNOWN_FAILURE: ReplicationFailure = { error: "error", reason: "" };

/** With what belongs to the state, and nothing else. */
export function jobOutcome(
  state: RunOutcome,
  failure: ReplicationFailure = UNKNOWN_FAILURE,
  result: Readonly<Record<string, unknown>> = {},
): JobOutcome {
  switch (state) {
    case "pending":
      return PENDING;
    case "parked":
      return PARKED;
    case "completed":
      return { state, failure: undefined, result };
    case "crashing":
    case "failed":
      return { state, failure, result: undefined };
  }
}

/** Why a job cannot be read. */
const UNREADABLE =
  "A newer version of the server stored this job, or it is sealed with a key that this node lacks";

/** RFC 016's states. */
export type ReplicationState = Exclude<RunOutcome, "parked"> | "running";

/** The state that is shown: whether a job runs is the queue's fact, the rest is what became of its last run. */
export function replicationState(
  { state }: Pick<Job, "state">,
  { state: outcome }: Pick<ReplicationJobData, "state">,
): ReplicationState {
  return shownState(outcome, state === "running");
}

/** A parked job is shown as running: to who looks, it does what a job does that waits for changes in a slot. */
export function shownState(outcome: RunOutcome, isRunning: boolean): ReplicationState {
  return isRunning || outcome === "parked" ? "running" : outcome;
}

/** Whether a job has ended, unless it is tried once more. */
export function hasEnded(state: RunOutcome | "running"): boolean {
  return state === "completed" || state === "failed";
}

export interface JobEvent {
  readonly type: "added" | "started" | "stopped" | "parked" | "pending" | "crashed" | "stalled";
  readonly timeMs: number;
  readonly reason?: string;
}

/** The document that a persistent job comes from. */
export interface JobDocument {
  readonly database: string;
  readonly databaseUuid: string;
  readonly id: string;
}

/** What is asked for, or why it cannot be had: the document is malformed, or its writer may not have it. */
export type Asked =
  | { readonly replication: Replication; readonly refusal: undefined }
  | { readonly replication: undefined; readonly refusal: ReplicationFailure };

/** What was asked for, by whom and when. It stays as it is for as long as the job is there. */
export type JobRequest = Asked &
  Authority & {
    /** Undefined for a transient job. */
    readonly document: JobDocument | undefined;
    /** The name of the rule that made the job; undefined for all others. */
    readonly rule?: string | undefined;
    readonly addedTimeMs: number;
  };

/** How fast a run copies: documents that were written, and bytes that its connections moved, both ways. */
export interface CopyRates {
  readonly docsPerSec: number;
  readonly bytesPerSec: number;
}

export const NO_RATES: CopyRates = { docsPerSec: 0, bytesPerSec: 0 };

/** How far the job is; with the outcome of its last run. */
export type JobProgress = JobOutcome & {
  /** Undefined until it was computed, which needs the source where a filter function is part of it. */
  readonly replicationId: string | undefined;
  /** Whether a run of the job created its target; absent: it existed, or that is unknown. */
  readonly hasCreatedTarget?: boolean | undefined;
  /** When both servers last answered the credentials of this very request; undefined if they never did. */
  readonly answeredMs?: number | undefined;
  /** Runs in a row that crashed or failed. */
  readonly errorCount: number;
  /** Undefined while nothing fails. It outlives the outcome that it came with, until a success holds. */
  readonly failing: Failing | undefined;
  /** Runs in a row that were ended because they did not move. */
  readonly stallCount: number;
  readonly statistics: ReplicationStatistics;
  readonly checkpointedSequence: SourceSequence;
  readonly throughSequence: SourceSequence;
  readonly sourceSequence: SourceSequence;
  readonly changesPending: number | undefined;
  /** As the last run knew them, when it parked the job; undefined: the next run asks both sides. */
  readonly startTimes: StartTimes | undefined;
  /** Of the run that goes on; of none, they are 0. */
  readonly rates: CopyRates;
  /** For what its requests wait most of the time; undefined: for nothing, or it does not run. */
  readonly waitsFor: WaitReason | undefined;
  /** Newest first. */
  readonly history: readonly JobEvent[];
  readonly lastUpdatedMs: number;
  readonly lastStartMs: number;
};

export type ReplicationJobData = JobRequest & JobProgress;

/** What is shown of a job that this node cannot read: the reason why there is no more to show. */
export function unreadableJobData(): ReplicationJobData {
  const error = "unknown_format";
  const failure = { error, reason: UNREADABLE };
  const origin = { document: undefined, userName: null, replicationId: undefined };
  const data = newJobData({ ...origin, replication: undefined, refusal: failure }, 0);
  return { ...data, state: "crashing", failure, result: undefined };
}

/** A job that has not run yet. */
export function newJobData(
  origin: Asked & Authority & Pick<ReplicationJobData, "document" | "rule" | "replicationId">,
  nowMs: number,
): ReplicationJobData {
  return {
    ...origin,
    ...PENDING,
    answeredMs: undefined,
    errorCount: 0,
    failing: undefined,
    stallCount: 0,
    statistics: NO_STATISTICS,
    checkpointedSequence: 0,
    throughSequence: 0,
    sourceSequence: 0,
    changesPending: undefined,
    startTimes: undefined,
    ...STANDING_STILL,
    history: [{ type: "added", timeMs: nowMs }],
    addedTimeMs: nowMs,
    lastUpdatedMs: nowMs,
    lastStartMs: 0,
  };
}

/** How fast a job is that does not run. */
const STANDING_STILL = { rates: NO_RATES, waitsFor: undefined } as const;

/** Why the job does not run, or did not to its end; undefined when nothing is wrong. */
export function failureOf({
  failure,
  refusal,
}: Pick<ReplicationJobData, "failure" | "refusal">): ReplicationFailure | undefined {
  return failure ?? refusal;
}

/**
 * Whether both servers accepted the job's credentials since a run of it last failed; our own databases need none. Only such a job keeps
 * those of other users from the same replication for long.
 */
export function isProven({
  replication,
  answeredMs,
  failing,
}: Pick<ReplicationJobData, "replication" | "answeredMs" | "failing">): boolean {
  if (replication?.source.kind === "local" && replication.target.kind === "local") return true;
  return answeredMs !== undefined && answeredMs >= (failing?.lastMs ?? 0);
}

/** When something happened, and how many events of it are kept. */
export interface Noted {
  readonly nowMs: number;
  readonly historyLengthMax: number;
}

/**
 * A run has begun. A job that has ended has ended also while its failures are tried once more; of any other, the last crash is over.
 * Another id is another replication: its figures begin at zero.
 */
export function started(
  data: ReplicationJobData,
  replicationId: string,
  { nowMs, historyLengthMax }: Noted,
): ReplicationJobData {
  const isMoved = data.replicationId !== undefined && data.replicationId !== replicationId;
  const event = { type: "started", timeMs: nowMs } as const;
  return {
    ...data,
    ...(hasEnded(data.state) ? {} : PENDING),
    ...STANDING_STILL,
    startTimes: undefined,
    replicationId,
    statistics: isMoved ? NO_STATISTICS : data.statistics,
    history: withEvents(isMoved ? [] : data.history, [event], historyLengthMax),
    lastStartMs: nowMs,
    lastUpdatedMs: nowMs,
  };
}

/** Where a run is that goes on. */
export interface Observed
  extends Pick<
    JobProgress,
    | "statistics"
    | "checkpointedSequence"
    | "throughSequence"
    | "sourceSequence"
    | "rates"
    | "waitsFor"
  > {
  /** Whether both databases have answered, so that the run knows where it begins. */
  readonly hasBegun: boolean;
  /** Whether this run wrote a checkpoint. */
  readonly hasCheckpoint: boolean;
}

/**
 * The run's figures are taken over. Errors are forgotten when it has begun, and lasted for `healthyMs`. The job fails no more then,
 * or when it has written a checkpoint. A run that waits for its servers for as long is not healthy.
 */
export function observed(
  data: ReplicationJobData,
  { hasBegun, hasCheckpoint, ...figures }: Observed,
  { nowMs, healthyMs }: { readonly nowMs: number; readonly healthyMs: number },
): ReplicationJobData {
  const isHealthy = hasBegun && nowMs - data.lastStartMs > healthyMs;
  return {
    ...data,
    ...figures,
    answeredMs: hasBegun ? nowMs : data.answeredMs,
    errorCount: isHealthy ? 0 : data.errorCount,
    failing: isHealthy || hasCheckpoint ? undefined : data.failing,
    // A run that only stood still for as long would seem healthy, too.
    stallCount: isHealthy && hasCheckpoint ? 0 : data.stallCount,
    lastUpdatedMs: nowMs,
  };
}

/** Failures were tried once more: what came of it is added to the figures. */
export function retried(
  data: ReplicationJobData,
  more: Partial<ReplicationStatistics>,
): ReplicationJobData {
  return { ...data, statistics: addStatistics(data.statistics, more) };
}

/** The source has said how much is still to come; undefined: it could not. */
export function withChangesPending(
  data: ReplicationJobData,
  changesPending: number | undefined,
): ReplicationJobData {
  return { ...data, changesPending };
}

/** How a run ended, as `decide.ts` has decided. */
export type Ended = JobOutcome &
  Pick<JobProgress, "errorCount" | "stallCount" | "startTimes"> & {
    /** Whether everything has arrived. */
    readonly succeeds: boolean;
    /** Why this run failed; undefined when it did not. */
    readonly cause: FailureCause | undefined;
    /** Oldest first. */
    readonly events: readonly Omit<JobEvent, "timeMs">[];
  };

/** A run has ended. */
export function ended(
  data: ReplicationJobData,
  fate: Ended,
  { nowMs, historyLengthMax }: Noted,
): ReplicationJobData {
  const { state, failure, result, errorCount, stallCount, startTimes, succeeds, cause } = fate;
  const timed = fate.events.map((event) => ({ ...event, timeMs: nowMs }));
  const hasFailed = failure !== undefined && cause !== undefined;
  const failing = hasFailed ? failingAfter(data.failing, failure, cause, nowMs) : data.failing;
  return {
    ...data,
    ...jobOutcome(state, failure, result),
    ...STANDING_STILL,
    answeredMs: state === "completed" || state === "parked" ? nowMs : data.answeredMs,
    errorCount,
    failing: succeeds ? undefined : failing,
    stallCount,
    startTimes,
    history: withEvents(data.history, timed, historyLengthMax),
    lastUpdatedMs: nowMs,
  };
}

/** The source of a parked job has changed. */
export function woken(data: ReplicationJobData): ReplicationJobData {
  return { ...data, ...PENDING };
}

/** The job is to run once more: how it ended last is forgotten, and not that it fails. */
export function restarted(data: ReplicationJobData): ReplicationJobData {
  return { ...woken(data), startTimes: undefined };
}

/** The same, and its figures and errors begin at zero. */
export function begunAnew(data: ReplicationJobData): ReplicationJobData {
  return { ...restarted(data), statistics: NO_STATISTICS, errorCount: 0, failing: undefined };
}

/**
 * Adds events, given oldest first; the newest `lengthMax` are kept. `pending`, which follows the end of a run, does not count,
 * as CouchDB 3 has no such event: twenty events are ten runs that crashed.
 */
export function withEvents(
  history: readonly JobEvent[],
  events: readonly JobEvent[],
  lengthMax: number,
): readonly JobEvent[] {
  let count = 0;
  return [...events.toReversed(), ...history].filter(({ type }) => {
    if (type !== "pending") count++;
    return count <= lengthMax;
  });
}

/** A re-created database has another uuid, and so its documents have other jobs. */
export function persistentJobId(databaseUuid: string, documentId: string): string {
  return `${databaseUuid}|${documentId}`;
}

/** Returns the uuid of the database or rule in the id of a persistent job. */
export function databaseUuidOf(jobId: string): string | undefined {
  const length = jobId.indexOf("|");
  return length < 0 ? undefined : jobId.slice(0, length);
}
