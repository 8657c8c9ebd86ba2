/**
 * The stored form of a replication job: a request and its progress, JSON that the queue keeps apart. Either says in which format it is.
 *
 *   1   one object without a number: the request stood in the data, all members of both flat. Version 0.1 stored there that a job ran,
 *       which its queue knows better.
 *   2   the request is stored apart
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
  NO_RATES,
  type ReplicationJobData,
  type RunOutcome,
} from "./job-data.ts";
import { addStatistics, NO_STATISTICS } from "./replication-statistics.ts";

const FORMAT = 2;
/** Without a number. */
const FORMAT_FLAT = 1;

/** What a document that could not be parsed is said to have failed of, where nothing is known. */
const MALFORMED: ReplicationFailure = { error: "error", reason: "malformed document" };

/** What the queue stores of a job as its request. */
export function encodeRequest(data: ReplicationJobData): JobData {
  const { replication, refusal, document, rule, addedTimeMs } = data;
  const { userName, vouched, wasAdmin, isCopy } = data;
  const authority = { userName, vouched, wasAdmin, isCopy };
  return { format: FORMAT, replication, refusal, document, rule, ...authority, addedTimeMs };
}

/** What the queue stores of a job as its data. */
export function encodeProgress(data: ReplicationJobData): JobData {
  const { replicationId, state, failure, result, errorCount, stallCount, statistics } = data;
  const { checkpointedSequence, throughSequence, sourceSequence, changesPending } = data;
  const { history, lastUpdatedMs, lastStartMs, failing, startTimes, rates, waitsFor } = data;
  const { answeredMs, hasCreatedTarget } = data;
  return {
    format: FORMAT,
    replicationId,
    // A node of an older version, which does not know `parked`, takes a job that it finds due.
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
    // Of most jobs there is none.
    rates: rates === NO_RATES ? undefined : rates,
    waitsFor,
    history,
    lastUpdatedMs,
    lastStartMs,
  };
}

/** The request of a job that was stored before requests stood apart, and is to be stored so from now on; undefined for any other. */
export function requestToStore(
  { request }: Pick<Job, "request">,
  data: ReplicationJobData,
): JobData | undefined {
  return request === undefined ? encodeRequest(data) : undefined;
}

/** What the queue stores of a job of format 1 now, whose request stood in its data. */
export function splitJobData(data: JobData): { readonly data: JobData; readonly request: JobData } {
  const decoded = decodeJob({ data, request: undefined });
  return { data: encodeProgress(decoded), request: encodeRequest(decoded) };
}

/** What lists find a job by. */
export interface IndexedJob
  extends Pick<
    ReplicationJobData,
    "state" | "failing" | "stallCount" | "replicationId" | "lastUpdatedMs" | "userName"
  > {
  readonly replication: Pick<Replication, "source" | "target"> | undefined;
}

/** A part of what `decodeJob` says, without the work for the rest: each change of a job needs it. Throws as that does. */
export function decodeIndexed({ data, request }: Pick<Job, "data" | "request">): IndexedJob {
  assert(isReadable({ data, request }), "A replication job has a format that this version knows");
  const progress: StoredProgress = data;
  const { replication, userName = null }: StoredRequest = request ?? data;
  const { replicationId, errorCount = 0, stallCount = 0, lastUpdatedMs = 0 } = progress;
  const outcome = decodeOutcome(progress);
  const failing = progress.failing ?? failingSinceLast(outcome, errorCount, lastUpdatedMs);
  const { state } = outcome;
  return { replication, userName, state, failing, stallCount, replicationId, lastUpdatedMs };
}

/** Throws when a newer version stored the job, in a format that this one does not know. */
export function decodeJob({ data, request }: Pick<Job, "data" | "request">): ReplicationJobData {
  assert(isReadable({ data, request }), "A replication job has a format that this version knows");
  return decoded(request ?? data, data);
}

/** What became of a job so far, without the work for what was asked. Throws as `decodeJob`. */
export function decodeProgress({
  data,
}: Pick<Job, "data">): JobOutcome & Pick<ReplicationJobData, "replicationId" | "lastStartMs"> {
  const progress: StoredProgress = data;
  assert(isKnown(progress.format), "A replication job has a format that this version knows");
  const { replicationId, lastStartMs = 0 } = progress;
  return { ...decodeOutcome(progress), replicationId, lastStartMs };
}

function isKnown(format: number = FORMAT_FLAT): boolean {
  return format === FORMAT || format === FORMAT_FLAT;
}

/** Whether `decodeJob` can read the job: false when a newer version stored it. */
export function isReadable({ data, request }: Pick<Job, "data" | "request">): boolean {
  const progress: StoredProgress = data;
  const asked: StoredRequest = request ?? data;
  return isKnown(progress.format) && isKnown(asked.format);
}

/** What may be there; what an older version did not know is absent. */
type StoredRequest = Stored<JobRequest>;
type StoredProgress = Stored<Omit<JobProgress, "state">> & {
  readonly state?: RunOutcome | "running";
  /** Of a job that is pending for those who do not know it. */
  readonly isParked?: boolean;
};
type Stored<T> = { readonly format?: number } & {
  readonly [Name in keyof T]?: T[Name] | undefined;
};

/** One literal: putting it together from others takes V8 ten times as long, and a list decodes all its jobs. */
function decoded(asked: StoredRequest, progress: StoredProgress): ReplicationJobData {
  // A malformed document of format 1 had its failure in place of that of a run.
  const { replication, refusal } = decodeAsked(
    asked.replication,
    asked.refusal ?? progress.failure,
  );
  const outcome = decodeOutcome(progress);
  const { state, failure, result } = outcome;
  const { errorCount = 0, stallCount = 0, lastUpdatedMs = 0, lastStartMs = 0 } = progress;
  const { checkpointedSequence = 0, throughSequence = 0, sourceSequence = 0 } = progress;
  const data: Members = {
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
    rates: progress.rates ?? NO_RATES,
    waitsFor: progress.waitsFor,
    history: progress.history ?? NO_EVENTS,
    lastUpdatedMs,
    lastStartMs,
  };
  // The members of a request belong together as decoded, and so do those of an outcome.
  return data as ReplicationJobData;
}

/** Of whatever state a job is. */
type Members = { readonly [Name in keyof ReplicationJobData]: ReplicationJobData[Name] };

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

/** Earlier versions stored a selector and the parameters of a filter as values, which their numbers may have lost their form in. */
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

/** Of a job that a version stored that did not know since when it fails: since its last run, as far as one can tell. */
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
