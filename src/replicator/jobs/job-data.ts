/**
 * Data of a replication job in the queue (RFC 016, "Job data"): the replication, its requester, and
 * its progress. `job-data-record.ts` defines the stored form. Times are in milliseconds since the
 * epoch.
 *
 * Job data is immutable. Each kind of change has a function here that returns the new value.
 */
import type { Authority } from "../../databases/index.ts";
import type { WaitReason } from "../../http-client/index.ts";
import type { Job } from "../../jobs/index.ts";
import type { SourceSequence, StartTimes } from "../endpoints/endpoint.ts";
import type { Replication } from "../request/replication.ts";
import { baseIdOf } from "../request/replication-id.ts";
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

/** Queue type of replication jobs. */
export const REPLICATION_JOB_TYPE = "replication";

/**
 * Outcome of a job's last run.
 *
 *   pending     stopped on request, still running, or never run
 *   parked      everything was copied and the source is idle; waits for a change (`parking/`)
 *   crashing    failed; will be retried
 *   completed   all changes were copied; one-shot jobs only. `result` is returned to the caller
 *   failed      failed; will not be retried
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
const UNKNOWN_FAILURE: ReplicationFailure = { error: "error", reason: "" };

/** Returns the outcome for a state, with exactly the members that this state has. */
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

/** Reason shown for an unreadable job. */
const UNREADABLE =
  "A newer version of the server stored this job, or the job is sealed with a key that this node lacks";

/** States of a job in RFC 016. */
export type ReplicationState = Exclude<RunOutcome, "parked"> | "running";

/** Returns the state to show: running, or the outcome of the last run. */
export function replicationState(
  { state }: Pick<Job, "state">,
  { state: outcome }: Pick<ReplicationJobData, "state">,
): ReplicationState {
  return shownState(outcome, state === "running");
}

/**
 * A parked job is shown as running, because it waits for changes like a running job that has caught
 * up.
 */
export function shownState(outcome: RunOutcome, isRunning: boolean): ReplicationState {
  return isRunning || outcome === "parked" ? "running" : outcome;
}

/** Whether a job has ended. An ended job can still run to retry its failures. */
export function hasEnded(state: RunOutcome | "running"): boolean {
  return state === "completed" || state === "failed";
}

export interface JobEvent {
  readonly type: "added" | "started" | "stopped" | "parked" | "pending" | "crashed" | "stalled";
  readonly timeMs: number;
  readonly reason?: string;
}

/** The document of a persistent job. */
export interface JobDocument {
  readonly database: string;
  readonly databaseUuid: string;
  readonly id: string;
}

/** The requested replication, or why it is rejected: malformed document, or missing permission. */
export type Asked =
  | { readonly replication: Replication; readonly refusal: undefined }
  | { readonly replication: undefined; readonly refusal: ReplicationFailure };

/** The request, its author and time. Constant during the job's lifetime. */
export type JobRequest = Asked &
  Authority & {
    /** The replication document; undefined for a transient job or a job of a rule. */
    readonly document: JobDocument | undefined;
    /** Name of the rule that created the job, if any. */
    readonly rule?: string | undefined;
    readonly addedTimeMs: number;
  };

/** Speed of a run: documents written, and bytes sent and received. */
export interface CopyRates {
  readonly docsPerSec: number;
  readonly bytesPerSec: number;
}

export const NO_RATES: CopyRates = { docsPerSec: 0, bytesPerSec: 0 };

/** Progress in one direction. Sequences are those of the direction's source. */
export interface DirectionProgress {
  /**
   * Id of the replication; undefined until computed. Computing it can require reading a filter
   * function from the source.
   */
  readonly replicationId: string | undefined;
  readonly statistics: ReplicationStatistics;
  readonly checkpointedSequence: SourceSequence;
  readonly throughSequence: SourceSequence;
  readonly sourceSequence: SourceSequence;
  /**
   * Creation times of both databases when the job was parked. If they are undefined, the next run
   * reads the replication logs of both databases.
   */
  readonly startTimes: StartTimes | undefined;
}

/** Progress of a direction that has not run yet. */
const NOTHING_COPIED: DirectionProgress = {
  replicationId: undefined,
  statistics: NO_STATISTICS,
  checkpointedSequence: 0,
  throughSequence: 0,
  sourceSequence: 0,
  startTimes: undefined,
};

/** Progress of a job in its only or forward direction, and the outcome of its last run. */
export type JobProgress = JobOutcome &
  DirectionProgress & {
    /** Progress of the reverse direction of a pair; undefined until its first run has started. */
    readonly reverse?: DirectionProgress | undefined;
    /**
     * Whether a run of the job created the target. Absent if the target existed before, or if that
     * is unknown.
     */
    readonly hasCreatedTarget?: boolean | undefined;
    /** Time when both servers last accepted this request's credentials, if ever. */
    readonly answeredMs?: number | undefined;
    /** Number of consecutive crashed or failed runs. */
    readonly errorCount: number;
    /**
     * Failure status of the job, while it is failing. Persists across outcomes until a lasting
     * success.
     */
    readonly failing: Failing | undefined;
    /** Number of consecutive runs that ended because they stalled. */
    readonly stallCount: number;
    /** Pending changes in all directions; undefined if unknown. */
    readonly changesPending: number | undefined;
    /** Rates of the current run; 0 if not running. */
    readonly rates: CopyRates;
    /** The main reason why requests of the current run have to wait, if any. */
    readonly waitsFor: WaitReason | undefined;
    /** Latest events of the job, newest first. */
    readonly history: readonly JobEvent[];
    readonly lastUpdatedMs: number;
    readonly lastStartMs: number;
  };

export type ReplicationJobData = JobRequest & JobProgress;

/** Members of a job in any state. */
export type MembersOfJob = {
  readonly [Name in keyof ReplicationJobData]: ReplicationJobData[Name];
};

/** Returns a placeholder for a job that this node cannot read, containing the reason. */
export function unreadableJobData(): ReplicationJobData {
  const error = "unknown_format";
  const failure = { error, reason: UNREADABLE };
  const origin = { document: undefined, userName: null, replicationId: undefined };
  const data = newJobData({ ...origin, replication: undefined, refusal: failure }, 0);
  return { ...data, state: "crashing", failure, result: undefined };
}

/**
 * Creates the data of a job that has not run yet. Written as one object literal, because spreading
 * takes ten times as long in V8.
 */
export function newJobData(
  origin: Asked & Authority & Pick<ReplicationJobData, "document" | "rule" | "replicationId">,
  nowMs: number,
): ReplicationJobData {
  const data: MembersOfJob = {
    replication: origin.replication,
    refusal: origin.refusal,
    document: origin.document,
    rule: origin.rule,
    userName: origin.userName,
    vouched: origin.vouched,
    wasAdmin: origin.wasAdmin,
    isCopy: origin.isCopy,
    addedTimeMs: nowMs,
    state: PENDING.state,
    failure: PENDING.failure,
    result: PENDING.result,
    replicationId: origin.replicationId,
    answeredMs: undefined,
    hasCreatedTarget: undefined,
    errorCount: 0,
    failing: undefined,
    stallCount: 0,
    statistics: NO_STATISTICS,
    checkpointedSequence: 0,
    throughSequence: 0,
    sourceSequence: 0,
    changesPending: undefined,
    startTimes: undefined,
    reverse: undefined,
    rates: NO_RATES,
    waitsFor: undefined,
    history: [{ type: "added", timeMs: nowMs }],
    lastUpdatedMs: nowMs,
    lastStartMs: 0,
  };
  // TypeScript cannot verify that `replication` and `refusal` are consistent with each other.
  return data as ReplicationJobData;
}

const STANDING_STILL = { rates: NO_RATES, waitsFor: undefined } as const;

/** Returns the job's failure or refusal, if it has one. */
export function failureOf({
  failure,
  refusal,
}: Pick<ReplicationJobData, "failure" | "refusal">): ReplicationFailure | undefined {
  return failure ?? refusal;
}

/**
 * Whether both servers have accepted the job's credentials since its last failure. True if both
 * databases are local. An unproven job blocks other users' jobs for the same replication only
 * briefly.
 */
export function isProven({
  replication,
  answeredMs,
  failing,
}: Pick<ReplicationJobData, "replication" | "answeredMs" | "failing">): boolean {
  if (replication?.source.kind === "local" && replication.target.kind === "local") return true;
  return answeredMs !== undefined && answeredMs >= (failing?.lastMs ?? 0);
}

/** Time of a change that is recorded in a job's history, and the maximum length of the history. */
export interface Noted {
  readonly nowMs: number;
  readonly historyLengthMax: number;
}

/** Returns the progress of each direction that has run, forward first. */
export function directionsRun(
  data: Pick<JobProgress, keyof DirectionProgress | "reverse">,
): readonly DirectionProgress[] {
  return data.reverse === undefined ? [data] : [data, data.reverse];
}

/**
 * Returns the replication ids of a job, one for each direction, omitting ids that are not known
 * yet.
 */
export function replicationIdsOf({
  replicationId,
  reverse,
}: {
  readonly replicationId: string | undefined;
  readonly reverse?: Pick<DirectionProgress, "replicationId"> | undefined;
}): readonly string[] {
  return [replicationId, reverse?.replicationId].filter((id) => id !== undefined);
}

/**
 * Returns the ids of a job's checkpoints and lists of failures, omitting ids that are not known
 * yet.
 */
export function baseIdsOf(data: Parameters<typeof replicationIdsOf>[0]): readonly string[] {
  return replicationIdsOf(data).map((id) => baseIdOf(id));
}

/** Returns the statistics of all directions. */
export function statisticsOf({
  statistics,
  reverse,
}: Pick<JobProgress, "statistics" | "reverse">): ReplicationStatistics {
  return reverse === undefined ? statistics : addStatistics(statistics, reverse.statistics);
}

/**
 * Replication ids of a run: the id of its only or forward direction, and the id of the reverse
 * direction of a pair.
 */
export interface RunIds {
  readonly id: string;
  readonly reverseId?: string | undefined;
}

/**
 * Records that a run has started. An ended job keeps its state, since its run only retries failed
 * documents; any other job becomes pending. A changed replication id resets the statistics.
 */
export function started(
  data: ReplicationJobData,
  { id: replicationId, reverseId }: RunIds,
  { nowMs, historyLengthMax }: Noted,
): ReplicationJobData {
  const isMoved = data.replicationId !== undefined && data.replicationId !== replicationId;
  const { reverse = NOTHING_COPIED } = data;
  const isReverseMoved = reverse.replicationId !== reverseId;
  const event = { type: "started", timeMs: nowMs } as const;
  return {
    ...data,
    ...(hasEnded(data.state) ? {} : PENDING),
    ...STANDING_STILL,
    startTimes: undefined,
    replicationId,
    statistics: isMoved ? NO_STATISTICS : data.statistics,
    reverse:
      reverseId === undefined
        ? undefined
        : {
            ...(isReverseMoved ? NOTHING_COPIED : reverse),
            startTimes: undefined,
            replicationId: reverseId,
          },
    history: withEvents(isMoved ? [] : data.history, [event], historyLengthMax),
    lastStartMs: nowMs,
    lastUpdatedMs: nowMs,
  };
}

/** Progress in one direction, as reported by a run. */
export type ObservedDirection = Omit<DirectionProgress, "replicationId" | "startTimes">;

/** Progress, as reported by a run. */
export interface Observed extends ObservedDirection, Pick<JobProgress, "rates" | "waitsFor"> {
  readonly reverse?: ObservedDirection | undefined;
  /** Whether both databases have responded. The start sequence is then known. */
  readonly hasBegun: boolean;
  /** Whether this run has written a checkpoint. */
  readonly hasCheckpoint: boolean;
}

/**
 * Stores the progress of a run. A run is healthy once it has lasted `healthyMs` and its servers
 * have answered. A healthy run resets the error count. A healthy run or a checkpoint clears the
 * failure status.
 */
export function observed(
  data: ReplicationJobData,
  { hasBegun, hasCheckpoint, reverse, ...figures }: Observed,
  { nowMs, healthyMs }: { readonly nowMs: number; readonly healthyMs: number },
): ReplicationJobData {
  const isHealthy = hasBegun && nowMs - data.lastStartMs > healthyMs;
  return {
    ...data,
    ...figures,
    reverse: data.reverse && { ...data.reverse, ...reverse },
    answeredMs: hasBegun ? nowMs : data.answeredMs,
    errorCount: isHealthy ? 0 : data.errorCount,
    failing: isHealthy || hasCheckpoint ? undefined : data.failing,
    // Reset only after a checkpoint: a run can last long enough to be healthy before it stalls.
    stallCount: isHealthy && hasCheckpoint ? 0 : data.stallCount,
    lastUpdatedMs: nowMs,
  };
}

/** Adds the result of retried failures to the statistics of their direction. */
export function retried(
  data: ReplicationJobData,
  more: Partial<ReplicationStatistics>,
  isReverse: boolean,
): ReplicationJobData {
  const { statistics, reverse } = data;
  if (!isReverse) return { ...data, statistics: addStatistics(statistics, more) };
  const added = reverse && { ...reverse, statistics: addStatistics(reverse.statistics, more) };
  return { ...data, reverse: added };
}

/** Sets the number of pending changes; undefined if the source did not report it. */
export function withChangesPending(
  data: ReplicationJobData,
  changesPending: number | undefined,
): ReplicationJobData {
  return { ...data, changesPending };
}

/** Decision about an ended run (`decide.ts`). */
export type Ended = JobOutcome &
  Pick<JobProgress, "errorCount" | "stallCount" | "startTimes"> & {
    /** Creation times for the reverse direction of a pair. */
    readonly reverseStartTimes: StartTimes | undefined;
    /** Whether all changes have arrived. */
    readonly succeeds: boolean;
    readonly cause: FailureCause | undefined;
    /** Events of the run, oldest first. */
    readonly events: readonly Omit<JobEvent, "timeMs">[];
  };

/** Applies the decision about an ended run to the job's data. */
export function ended(
  data: ReplicationJobData,
  disposition: Ended,
  { nowMs, historyLengthMax }: Noted,
): ReplicationJobData {
  const { state, failure, result, errorCount, stallCount, succeeds, cause } = disposition;
  const { startTimes, reverseStartTimes } = disposition;
  const timed = disposition.events.map((event) => ({ ...event, timeMs: nowMs }));
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
    reverse: data.reverse && { ...data.reverse, startTimes: reverseStartTimes },
    history: withEvents(data.history, timed, historyLengthMax),
    lastUpdatedMs: nowMs,
  };
}

/** Records that the source of a parked job has changed. */
export function woken(data: ReplicationJobData): ReplicationJobData {
  return { ...data, ...PENDING };
}

/** Prepares a job for another run: clears the last outcome, but not the failure status. */
export function restarted(data: ReplicationJobData): ReplicationJobData {
  const reverse = data.reverse && { ...data.reverse, startTimes: undefined };
  return { ...woken(data), startTimes: undefined, reverse };
}

/** Prepares a job for a restart: clears the last outcome, the statistics and the errors. */
export function begunAnew(data: ReplicationJobData): ReplicationJobData {
  const again = restarted(data);
  const reverse = again.reverse && { ...again.reverse, statistics: NO_STATISTICS };
  return { ...again, statistics: NO_STATISTICS, reverse, errorCount: 0, failing: undefined };
}

/**
 * Adds events, given oldest first, and keeps the newest `lengthMax`. The event `pending` at the end
 * of a run does not count towards `lengthMax`, because CouchDB 3 does not record it. A history of
 * twenty events therefore covers ten crashed runs.
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

/**
 * Returns the id of a document's job. A re-created database has a new uuid, so its documents have
 * new jobs.
 */
export function persistentJobId(databaseUuid: string, documentId: string): string {
  return `${databaseUuid}|${documentId}`;
}

/** Extracts the uuid of the database or rule from the id of a persistent job. */
export function databaseUuidOf(jobId: string): string | undefined {
  const length = jobId.indexOf("|");
  return length < 0 ? undefined : jobId.slice(0, length);
}
