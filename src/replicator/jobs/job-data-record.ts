/**
 * Stored form of a replication job: a request and its progress, which the queue stores separately
 * as JSON, each with a format number.
 *
 *   1   one object without a format number, with request and progress. Version 0.1 also stored
 *       whether the job was running; that member is ignored
 *   2   the request is separate
 */
import { assert } from "../../base/index.ts";
import type { Job, JobData } from "../../jobs/index.ts";
import { storedOptions } from "../request/parse-options.ts";
import type { Replication, Selection } from "../request/replication.ts";
import type { ReplicationFailure } from "./failing.ts";
import { classOfError, type Failing, failingAfter, NO_PLACE } from "./failing.ts";
import {
  type Asked,
  type JobEvent,
  type JobOutcome,
  type JobProgress,
  type JobRequest,
  jobOutcome,
  type MembersOfJob,
  NO_RATES,
  type ReplicationJobData,
  type RunOutcome,
} from "./job-data.ts";
import { addStatistics, NO_STATISTICS } from "./replication-statistics.ts";

const FORMAT = 2;
/** Format number assumed for records that contain no format number. */
const FORMAT_FLAT = 1;

/** Default failure of a malformed document without details. */
const MALFORMED: ReplicationFailure = { error: "error", reason: "malformed document" };

export function encodeRequest(data: ReplicationJobData): JobData {
  const { replication, refusal, document, rule, addedTimeMs } = data;
  const { userName, vouched, wasAdmin, isCopy } = data;
  const authority = { userName, vouched, wasAdmin, isCopy };
  return { format: FORMAT, replication, refusal, document, rule, ...authority, addedTimeMs };
}

export function encodeProgress(data: ReplicationJobData): JobData {
  const { replicationId, state, failure, result, errorCount, stallCount, statistics } = data;
  const { checkpointedSequence, throughSequence, sourceSequence, changesPending } = data;
  const { history, lastUpdatedMs, lastStartMs, failing, startTimes, rates, waitsFor } = data;
  const { answeredMs, hasCreatedTarget, reverse } = data;
  return {
    format: FORMAT,
    replicationId,
    // Nodes of older versions do not know `parked`. They run a parked job when it is due.
    state: state === "parked" ? "pending" : state,
    isParked: state === "parked" ? true : undefined,
    failure,
    result,
    answeredMs,
    hasCreatedTarget,
    errorCount,
    failing,
    stallCount,
    statistics,
    checkpointedSequence,
    throughSequence,
    sourceSequence,
    changesPending,
    startTimes,
    reverse,
    // Omitted unless the job is running, to save space: most jobs are not running.
    rates: rates === NO_RATES ? undefined : rates,
    waitsFor,
    history,
    lastUpdatedMs,
    lastStartMs,
  };
}

/**
 * Returns the request of a job in format 1, so that it can be stored separately. Returns undefined
 * for a job in a newer format.
 */
export function requestToStore(
  { request }: Pick<Job, "request">,
  data: ReplicationJobData,
): JobData | undefined {
  return request === undefined ? encodeRequest(data) : undefined;
}

/** Converts a job of format 1 to the current format. */
export function splitJobData(data: JobData): { readonly data: JobData; readonly request: JobData } {
  const decoded = decodeJob({ data, request: undefined });
  return { data: encodeProgress(decoded), request: encodeRequest(decoded) };
}

/** Members of a job that the job index needs. */
export interface IndexedJob
  extends Pick<
    ReplicationJobData,
    "state" | "failing" | "stallCount" | "replicationId" | "reverse" | "lastUpdatedMs" | "userName"
  > {
  readonly replication: Pick<Replication, "source" | "target" | "pair" | "tags"> | undefined;
}

/**
 * Decodes only the members that the index needs. Faster than `decodeJob`, which matters because
 * every change of a job is indexed. Throws like `decodeJob`.
 */
export function decodeIndexed({ data, request }: Pick<Job, "data" | "request">): IndexedJob {
  assert(isReadable({ data, request }), "A replication job must have a supported format version");
  const progress: StoredProgress = data;
  const { replication, userName = null }: StoredRequest = request ?? data;
  const { replicationId, reverse, errorCount = 0, stallCount = 0, lastUpdatedMs = 0 } = progress;
  const outcome = decodeOutcome(progress);
  const failing = progress.failing ?? failingSinceLast(outcome, errorCount, lastUpdatedMs);
  const { state } = outcome;
  return {
    replication,
    userName,
    state,
    failing,
    stallCount,
    replicationId,
    reverse,
    lastUpdatedMs,
  };
}

/** Decodes a job. Throws if a newer version stored it in an unknown format. */
export function decodeJob({ data, request }: Pick<Job, "data" | "request">): ReplicationJobData {
  assert(isReadable({ data, request }), "A replication job must have a supported format version");
  return decoded(request ?? data, data);
}

/** Decodes the outcome of a job without its request. Throws like `decodeJob`. */
export function decodeProgress({
  data,
}: Pick<Job, "data">): JobOutcome &
  Pick<ReplicationJobData, "replicationId" | "reverse" | "lastStartMs"> {
  const progress: StoredProgress = data;
  assert(isKnown(progress.format), "A replication job must have a supported format version");
  const { replicationId, reverse, lastStartMs = 0 } = progress;
  return { ...decodeOutcome(progress), replicationId, reverse, lastStartMs };
}

function isKnown(format: number = FORMAT_FLAT): boolean {
  return format === FORMAT || format === FORMAT_FLAT;
}

/** Whether `decodeJob` can read the job; false if a newer version stored it. */
export function isReadable({ data, request }: Pick<Job, "data" | "request">): boolean {
  const progress: StoredProgress = data;
  const asked: StoredRequest = request ?? data;
  return isKnown(progress.format) && isKnown(asked.format);
}

/**
 * Members of a stored request. Members that are unknown to the version that stored the request are
 * absent.
 */
type StoredRequest = Stored<JobRequest>;
type StoredProgress = Stored<Omit<JobProgress, "state">> & {
  readonly state?: RunOutcome | "running";
  /**
   * Whether the job is parked. Its state is stored as pending, for versions that do not know
   * `parked`.
   */
  readonly isParked?: boolean;
};
type Stored<T> = { readonly format?: number } & {
  readonly [Name in keyof T]?: T[Name] | undefined;
};

/**
 * Decodes a job. Written as one object literal, because spreading takes ten times as long in V8,
 * and each list of jobs decodes all its rows.
 */
function decoded(asked: StoredRequest, progress: StoredProgress): ReplicationJobData {
  // Format 1 stored the refusal of a malformed document in `failure`.
  const { replication, refusal } = decodeAsked(
    asked.replication,
    asked.refusal ?? progress.failure,
  );
  const outcome = decodeOutcome(progress);
  const { state, failure, result } = outcome;
  const { errorCount = 0, stallCount = 0, lastUpdatedMs = 0, lastStartMs = 0 } = progress;
  const { checkpointedSequence = 0, throughSequence = 0, sourceSequence = 0 } = progress;
  const data: MembersOfJob = {
    replication,
    refusal,
    document: asked.document,
    rule: asked.rule,
    userName: asked.userName ?? null,
    vouched: asked.vouched,
    wasAdmin: asked.wasAdmin,
    isCopy: asked.isCopy,
    addedTimeMs: asked.addedTimeMs ?? 0,
    state,
    failure,
    result,
    replicationId: progress.replicationId,
    answeredMs: progress.answeredMs,
    hasCreatedTarget: progress.hasCreatedTarget,
    errorCount,
    failing: progress.failing ?? failingSinceLast(outcome, errorCount, lastUpdatedMs),
    stallCount,
    statistics: addStatistics(NO_STATISTICS, progress.statistics ?? {}),
    checkpointedSequence,
    throughSequence,
    sourceSequence,
    changesPending: progress.changesPending,
    startTimes: progress.startTimes,
    reverse: progress.reverse,
    rates: progress.rates ?? NO_RATES,
    waitsFor: progress.waitsFor,
    history: progress.history ?? NO_EVENTS,
    lastUpdatedMs,
    lastStartMs,
  };
  // TypeScript cannot verify that the members of the request are consistent with each other, nor
  // that those of the outcome are.
  return data as ReplicationJobData;
}

function decodeAsked(
  replication: Replication | undefined,
  refusal: ReplicationFailure = MALFORMED,
): Asked {
  if (replication === undefined) return { replication, refusal };
  const options = storedOptions(replication.options);
  const selection = storedSelection(replication.selection);
  if (options === replication.options && selection === replication.selection) {
    return { replication, refusal: undefined };
  }
  return { replication: { ...replication, options, selection }, refusal: undefined };
}

/**
 * Converts the selectors and parameters stored by earlier versions to JSON text. Earlier versions
 * stored parsed values, in which the original form of numbers can be lost.
 */
function storedSelection(selection: Selection): Selection {
  const text = (value: unknown): string =>
    typeof value === "string" ? value : JSON.stringify(value);
  if (selection.kind === "selector" && typeof selection.selector !== "string") {
    return { ...selection, selector: text(selection.selector) };
  }
  if (selection.kind === "filter" && typeof selection.queryParameters !== "string") {
    return { ...selection, queryParameters: text(selection.queryParameters) };
  }
  return selection;
}

const NO_EVENTS: readonly JobEvent[] = [];

function decodeOutcome({
  state = "pending",
  isParked = false,
  failure,
  result,
}: StoredProgress): JobOutcome {
  if (isParked) return jobOutcome("parked");
  return jobOutcome(state === "running" ? "pending" : state, failure, result);
}

/**
 * Estimates the failure status of a job that an older version stored: failing since its last run,
 * if that run failed.
 */
function failingSinceLast(
  { failure }: JobOutcome,
  errorCount: number,
  lastUpdatedMs: number,
): Failing | undefined {
  if (failure === undefined) return undefined;
  const cause = { ...NO_PLACE, class: classOfError(failure.error) };
  const failing = failingAfter(undefined, failure, cause, lastUpdatedMs);
  return { ...failing, tries: Math.max(1, errorCount) };
}
