/**
 * What lists show jobs by. A job has one status, stored beside it; from that follow its rows in the lists, and the counters. So
 * the rows of a change are the difference between two statuses. Pure.
 */
import { assert, utf8Decode, utf8Encode } from "../../base/index.ts";
import type { Job } from "../../jobs/index.ts";
import { packTuple, unpackTuple } from "../../kv/index.ts";
import type { StatusValue } from "../replicator-keys.ts";
import { validEndpointUrl } from "../request/endpoint-url.ts";
import type { EndpointAddress } from "../request/replication.ts";
import { NEVER_SEC } from "./decide.ts";
import type { FailureClass } from "./failing.ts";
import {
  hasEnded,
  type ReplicationJobData,
  type ReplicationState,
  type RunOutcome,
  replicationState,
} from "./job-data.ts";

export interface JobStatus {
  /** As it is shown. */
  readonly state: ReplicationState;
  readonly isPaused: boolean;
  /** What became of the last run: the state once the job does not run. */
  readonly outcome: RunOutcome;
  readonly failing:
    | { readonly sinceMs: number; readonly tries: number; readonly class: FailureClass }
    | undefined;
  /** Whether documents are on its list of failures. */
  readonly hasLeftBehind: boolean;
  readonly isStalled: boolean;
  readonly replicationId: string | undefined;
  readonly owner: string | null;
  /** Under which names the source is found: host and port, host, or a database of our own. */
  readonly source: readonly string[];
  readonly target: readonly string[];
}

/** The lists. `since` and `tries` hold jobs that fail, in these orders; `active` holds what has not ended, by its shown id. */
export const STATUS_LISTS = [
  "state",
  "active",
  "since",
  "tries",
  "error",
  "flag",
  "owner",
  "source",
  "target",
] as const;
export type StatusList = (typeof STATUS_LISTS)[number];
export const STATUS_FLAGS = ["failing", "left_behind", "paused", "stalled"] as const;
export type StatusFlag = (typeof STATUS_FLAGS)[number];

/** One row of one list. */
export type StatusRow = readonly [list: StatusList, value: StatusValue];

/** Lists whose rows are counted: the others hold the same jobs as one of these. */
const COUNTED: ReadonlySet<StatusList> = new Set([
  "state",
  "error",
  "flag",
  "owner",
  "source",
  "target",
]);

/** So much of a name is part of a key. */
const NAME_LENGTH_MAX = 500;

/** The name as lists have it, for who looks for it. */
export function listedName(name: string): string {
  return name.slice(0, NAME_LENGTH_MAX);
}

type ShownFacts = Pick<Job, "state" | "scheduledAtSec">;
type AskedStatus = Pick<JobStatus, "owner" | "source" | "target">;

/** What stays of a job while it runs, waits and ends. */
export function askedStatus({
  replication,
  userName,
}: Pick<ReplicationJobData, "userName" | "replication">): AskedStatus {
  const owner = userName === null ? null : listedName(userName);
  return { owner, source: placesOf(replication?.source), target: placesOf(replication?.target) };
}

/** Equal statuses are equal as JSON. */
export function jobStatus(
  facts: ShownFacts,
  data: Pick<ReplicationJobData, "state" | "failing" | "stallCount" | "replicationId">,
  { owner, source, target }: AskedStatus,
  hasLeftBehind: boolean,
): JobStatus {
  const { failing, stallCount, replicationId, state: outcome } = data;
  return {
    ...factsStatus(facts, outcome),
    outcome,
    failing: failing && {
      sinceMs: failing.sinceMs,
      tries: failing.tries,
      class: failing.class,
    },
    hasLeftBehind,
    isStalled: stallCount > 0,
    replicationId,
    owner,
    source,
    target,
  };
}

/** The job is accepted, back in the queue, or due at another time. */
export function withFacts(status: JobStatus, facts: ShownFacts): JobStatus {
  return { ...status, ...factsStatus(facts, status.outcome) };
}

function factsStatus(
  { state, scheduledAtSec }: ShownFacts,
  outcome: RunOutcome,
): Pick<JobStatus, "state" | "isPaused"> {
  return {
    state: replicationState({ state }, { state: outcome }),
    isPaused: state !== "finished" && scheduledAtSec === NEVER_SEC,
  };
}

/** The rows of a job with this status. */
export function statusRows(jobId: string, status: JobStatus): readonly StatusRow[] {
  const { state, failing, replicationId, owner, source, target } = status;
  const rows: StatusRow[] = [["state", state]];
  if (!hasEnded(state)) rows.push(["active", listedName(replicationId ?? jobId)]);
  if (failing !== undefined) {
    rows.push(["since", failing.sinceMs], ["tries", failing.tries], ["error", failing.class]);
  }
  for (const flag of STATUS_FLAGS) if (hasFlag(status, flag)) rows.push(["flag", flag]);
  rows.push(["owner", owner]);
  for (const place of source) rows.push(["source", place]);
  for (const place of target) rows.push(["target", place]);
  return rows;
}

export function hasFlag(status: JobStatus, flag: StatusFlag): boolean {
  switch (flag) {
    case "failing":
      return status.failing !== undefined;
    case "left_behind":
      return status.hasLeftBehind;
    case "paused":
      return status.isPaused;
    case "stalled":
      return status.isStalled;
  }
}

/** The counters that a row counts for: of all jobs, and for states of the jobs of one `_replicator` database. */
export function countersOf([list, value]: StatusRow, jobId: string): readonly StatusCounter[] {
  if (!COUNTED.has(list)) return [];
  const uuid = list === "state" ? databaseUuidOf(jobId) : null;
  const all: StatusCounter = [list, value, null];
  return uuid === null ? [all] : [all, [list, value, uuid]];
}

export type StatusCounter = readonly [list: StatusList, value: StatusValue, uuid: string | null];

/** Of the `_replicator` database in the id of a persistent job; null in that of a transient one. */
function databaseUuidOf(jobId: string): string | null {
  const end = jobId.indexOf("|");
  return end < 0 ? null : jobId.slice(0, end);
}

/** Sorted and without doubles, so that equal places are equal lists. */
function placesOf(address: EndpointAddress | undefined): readonly string[] {
  if (address === undefined) return [];
  if (address.kind === "local") return [listedName(address.database)];
  const url = validEndpointUrl(address);
  if (url === undefined) return [];
  return [...new Set([url.host, url.hostname].map(listedName))];
}

/** The stored form; the first element is the format's version. */
const FORMAT = 1;

export function encodeStatus(status: JobStatus): Uint8Array {
  return packTuple([FORMAT, utf8Encode(JSON.stringify(status))]);
}

export function decodeStatus(value: Uint8Array): JobStatus {
  const [format, text] = unpackTuple(value);
  assert(format === FORMAT && text instanceof Uint8Array, "A status has a format of this version");
  const status = JSON.parse(utf8Decode(text)) as JobStatus;
  return { ...status, failing: status.failing, replicationId: status.replicationId };
}

export function isSameStatus(left: JobStatus | undefined, right: JobStatus | undefined): boolean {
  return JSON.stringify(left) === JSON.stringify(right);
}
