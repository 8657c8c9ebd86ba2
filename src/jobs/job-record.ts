/**
 * Stored forms of jobs (`JobFacts` and data) and of job types. The first element is the format
 * version.
 */
import { assert, concatBytes, utf8Decode, utf8Encode } from "../base/index.ts";
import {
  packTuple,
  packTupleVersionstamped,
  type Tuple,
  unpackTuple,
  Versionstamp,
  type VersionstampedBytes,
} from "../kv/index.ts";
import type { JobData, JobFacts, JobTerms, RunningFacts, TypeTimeout } from "./job.ts";
import { type Labels, NO_LABELS } from "./labels.ts";

/**
 * Format of a job with neither a request nor labels. `WITH_REQUEST` is added for a job with a
 * request, and `WITH_LABELS` for a job with labels. A node that does not support them then refuses
 * the job instead of losing them.
 */
const FORMAT = 3;
const WITH_REQUEST = 1;
const WITH_LABELS = 2;
const FORMAT_MAX = FORMAT + WITH_REQUEST + WITH_LABELS;
/**
 * Oldest readable format. Jobs in format 1 have no worker, and jobs in formats 1 and 2 have no
 * group. Both are read as undefined.
 */
const FORMAT_MIN = 1;
const FORMAT_OF_TYPES = 2;
/** Oldest readable format of a job type. Types stored in format 1 have no `formerTimeoutSec`. */
const FORMAT_OF_TYPES_MIN = 1;
const FORMAT_OF_IDS = 1;
const PENDING = 0;
const RUNNING = 1;
const FINISHED = 2;

/** Size of each chunk of a job's data except the last, below the store's limit of 100,000 bytes. */
export const DATA_CHUNK_BYTES = 90_000;

export function encodeWaiting(
  state: "pending" | "finished",
  { scheduledAtSec, group, hasRequest, labels }: JobTerms,
): Uint8Array {
  const stateCode = state === "pending" ? PENDING : FINISHED;
  const format = formatOf(hasRequest, labels);
  return packTuple([format, stateCode, scheduledAtSec, group ?? null, ...labelItems(labels)]);
}

function formatOf(hasRequest: boolean, labels: Labels): number {
  return FORMAT + (hasRequest ? WITH_REQUEST : 0) + (labels.length > 0 ? WITH_LABELS : 0);
}

/** Returns the last element of a record in a format with labels. */
function labelItems(labels: Labels): Tuple {
  return labels.length > 0 ? [[...labels]] : [];
}

/** Facts of a running job whose position in the activity order is unknown until the commit. */
export type RunningFactsAtCommit = Omit<RunningFacts, "state" | "activity">;

/**
 * Encodes the facts of a job accepted or updated in this transaction. The commit completes the
 * versionstamp in the record.
 */
export function encodeRunning(
  facts: RunningFactsAtCommit,
  userVersion: number,
): VersionstampedBytes {
  return packTupleVersionstamped(runningTuple(facts, Versionstamp.incomplete(userVersion)));
}

/** Encodes the facts of a running job that keeps its position in the activity order. */
export function encodeStillRunning(facts: RunningFacts): Uint8Array {
  return packTuple(runningTuple(facts, facts.activity));
}

function runningTuple(facts: RunningFactsAtCommit, activity: Versionstamp): Tuple {
  const { lock, scheduledAtSec, resubmitted, worker, group, hasRequest, labels } = facts;
  const format = formatOf(hasRequest, labels);
  const owners = [worker ?? null, group ?? null, ...labelItems(labels)];
  return [format, RUNNING, scheduledAtSec, lock, resubmitted, activity, ...owners];
}

export function decodeFacts(value: Uint8Array): JobFacts {
  const [format, state, scheduledAtSec, ...rest] = unpackTuple(value);
  assert(
    typeof format === "number" && format >= FORMAT_MIN && format <= FORMAT_MAX,
    "The job record must have a supported format version",
  );
  assert(typeof scheduledAtSec === "number", "A job record must have a schedule");
  const parts = Math.max(0, format - FORMAT);
  const hasRequest = (parts & WITH_REQUEST) !== 0;
  const labels = (parts & WITH_LABELS) === 0 ? NO_LABELS : (rest.at(-1) as string[]);
  if (state === PENDING || state === FINISHED) {
    const [group] = rest;
    return {
      state: state === PENDING ? "pending" : "finished",
      scheduledAtSec,
      group: textOrNone(group),
      labels,
      hasRequest,
    };
  }
  const [lock, resubmitted, activity, worker, group] = rest;
  assert(state === RUNNING && typeof lock === "string", "A running job must have a lock");
  assert(
    activity instanceof Versionstamp,
    "A running job must have a position in the activity order",
  );
  return {
    state: "running",
    scheduledAtSec,
    group: textOrNone(group),
    labels,
    hasRequest,
    lock,
    resubmitted: resubmitted === true,
    activity,
    worker: textOrNone(worker),
  };
}

function textOrNone(item: unknown): string | undefined {
  return typeof item === "string" ? item : undefined;
}

export function encodeTypeTimeout({ timeoutSec, formerTimeoutSec }: TypeTimeout): Uint8Array {
  return packTuple([FORMAT_OF_TYPES, timeoutSec, formerTimeoutSec]);
}

export function decodeTypeTimeout(value: Uint8Array): TypeTimeout {
  const [format, timeoutSec, formerTimeoutSec = timeoutSec] = unpackTuple(value);
  assert(
    typeof format === "number" && format >= FORMAT_OF_TYPES_MIN && format <= FORMAT_OF_TYPES,
    "The record of a job type must have a supported format version",
  );
  assert(typeof timeoutSec === "number", "A job type must have a timeout");
  assert(typeof formerTimeoutSec === "number", "A job type must have a former timeout");
  return { timeoutSec, formerTimeoutSec };
}

export function encodeJobId(id: string): Uint8Array {
  return packTuple([FORMAT_OF_IDS, id]);
}

export function decodeJobId(value: Uint8Array): string {
  const [format, id] = unpackTuple(value);
  assert(
    format === FORMAT_OF_IDS && typeof id === "string",
    "An activity row must contain the id of its job",
  );
  return id;
}

/** Encodes the data as JSON, split into chunks that fit into values. */
export function encodeData(data: JobData): Uint8Array[] {
  const bytes = utf8Encode(JSON.stringify(data));
  const chunks: Uint8Array[] = [];
  for (let start = 0; start < bytes.length; start += DATA_CHUNK_BYTES) {
    chunks.push(bytes.subarray(start, start + DATA_CHUNK_BYTES));
  }
  return chunks;
}

export function decodeData(chunks: readonly Uint8Array[]): JobData {
  const [first, ...others] = chunks;
  const bytes = others.length === 0 && first !== undefined ? first : concatBytes(chunks);
  return JSON.parse(utf8Decode(bytes));
}
