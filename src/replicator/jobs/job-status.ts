/**
 * What lists find jobs by. A job has one status, stored beside it; its rows in the lists and the counters follow from it, so the
 * rows of a change are the difference between two statuses. Whether a job runs is no part of it: the queue knows the few that do,
 * and an acceptance changes no status. Nor is there a row for a job that only waits: those are all jobs but the others. Pure.
 */

import { assert, utf8Encode, utf8Slice } from "../../base/index.ts";
import type { FailureClass } from "../../contract/index.ts";
import type { Job } from "../../jobs/index.ts";
import { packTuple, unpackTuple } from "../../kv/index.ts";
import type { StatusValue } from "../replicator-keys.ts";
import { validEndpointUrl } from "../request/endpoint-url.ts";
import type { EndpointAddress } from "../request/replication.ts";
import { NEVER_SEC } from "./decide.ts";
import type { FailureCause } from "./failing.ts";
import { causeKeyText } from "./failure-cause.ts";
import { hasEnded, type RunOutcome } from "./job-data.ts";
import type { IndexedJob } from "./job-data-record.ts";
import { listedName, localPlace } from "./listed-name.ts";
import { ruleUuidOf } from "./rule-jobs.ts";

export interface JobStatus {
  /** What became of the last run: the state that is shown while the job does not run. */
  readonly outcome: RunOutcome;
  readonly isPaused: boolean;
  readonly failing:
    | {
        readonly sinceMs: number;
        readonly tries: number;
        readonly class: FailureClass;
        /** Undefined as long as the status is that of a version that had no lists for it. */
        readonly place: Pick<FailureCause, "side" | "host"> | undefined;
      }
    | undefined;
  /** Whether documents are on its list of failures. */
  readonly hasLeftBehind: boolean;
  readonly isStalled: boolean;
  /** Since when it is known that a change has not arrived (`backlog.ts`); undefined: all have, or nobody knows. */
  readonly behindSinceMs: number | undefined;
  readonly replicationId: string | undefined;
  /** Of a transient job that has ended: when. */
  readonly endedMs: number | undefined;
  readonly owner: string | null;
  /** Under which names the source is found: host and port, host, or a database of our own (`localPlace`). */
  readonly source: readonly string[];
  readonly target: readonly string[];
}

/**
 * The lists. `outcome` holds jobs whose last run crashed, failed or completed; `active` those that have not ended, by their shown
 * id; `since` and `tries` jobs that fail, in these orders; `error` the same by the class of the last failure, and `cause` by class,
 * side and host together; `cause-since` those of one cause, in the order of time (`causeSinceList`); `ended` transient jobs that have
 * ended, in the order of time; `behind` jobs with changes that have not arrived, in the order of their lag. `rule` holds jobs of rules
 * by rule and flag, `rule-behind` those of one rule that are behind.
 */
export type StatusList =
  | "outcome"
  | "active"
  | "ended"
  | "since"
  | "tries"
  | "error"
  | "cause"
  | `cause-since ${string}`
  | "behind"
  | "flag"
  | "owner"
  | "source"
  | "target"
  | "rule"
  | `rule-behind ${string}`;
export const STATUS_FLAGS = ["failing", "left_behind", "paused", "parked", "stalled"] as const;
export type StatusFlag = (typeof STATUS_FLAGS)[number];
/** Flags of which each rule has counters of its own. */
const RULE_FLAGS = ["failing", "left_behind"] as const;
/** The jobs that fail are those of the list `error`, those that are parked have a row in `outcome`. */
export const LISTED_FLAGS = STATUS_FLAGS.filter((flag) => flag !== "failing" && flag !== "parked");

/** One row of one list. */
export type StatusRow = readonly [list: StatusList, value: StatusValue];

/**
 * Lists whose rows are counted: `active`, `since`, `tries` and `cause-since` hold the same jobs as others, and nobody asks how many
 * `ended` has.
 */
const COUNTED: ReadonlySet<StatusList> = new Set([
  "outcome",
  "error",
  "cause",
  "behind",
  "flag",
  "owner",
  "source",
  "target",
  "rule",
]);

type QueueFacts = Pick<Job, "state" | "scheduledAtSec">;
type AskedStatus = Pick<JobStatus, "owner" | "source" | "target">;

/** What stays of a job while it runs, waits and ends. */
export function askedStatus({ replication, userName }: IndexedJob): AskedStatus {
  const owner = userName === null ? null : listedName(userName);
  return { owner, source: placesOf(replication?.source), target: placesOf(replication?.target) };
}

/** Equal statuses are equal in their stored form. */
export function jobStatus(
  jobId: string,
  facts: QueueFacts,
  job: IndexedJob,
  { owner, source, target }: AskedStatus,
  { hasLeftBehind, behindSinceMs }: Pick<JobStatus, "hasLeftBehind" | "behindSinceMs">,
): JobStatus {
  const { failing, stallCount, replicationId, state: outcome, lastUpdatedMs } = job;
  const isEndedTransient = hasEnded(outcome) && databaseUuidOf(jobId) === null;
  return {
    outcome,
    isPaused: isPaused(facts),
    failing: failing && {
      sinceMs: failing.sinceMs,
      tries: failing.tries,
      class: failing.class,
      place: {
        side: failing.side,
        host: failing.host === undefined ? undefined : listedName(failing.host),
      },
    },
    hasLeftBehind,
    isStalled: stallCount > 0,
    behindSinceMs,
    replicationId,
    endedMs: isEndedTransient ? lastUpdatedMs : undefined,
    owner,
    source,
    target,
  };
}

/** The job is back in the queue, or due at another time. */
export function withFacts(status: JobStatus, facts: QueueFacts): JobStatus {
  return { ...status, isPaused: isPaused(facts) };
}

function isPaused({ state, scheduledAtSec }: QueueFacts): boolean {
  return state !== "finished" && scheduledAtSec === NEVER_SEC;
}

/** The rows that stay as long as what was asked for stays. */
export function askedRows({ owner, source, target }: AskedStatus): readonly StatusRow[] {
  return [
    ["owner", owner],
    ...source.map((place): StatusRow => ["source", place]),
    ...target.map((place): StatusRow => ["target", place]),
  ];
}

/** The rows that come and go while the job runs and waits. */
export function progressRows(jobId: string, status: JobStatus): readonly StatusRow[] {
  const { outcome, failing, endedMs, behindSinceMs } = status;
  const rows: StatusRow[] = [];
  if (outcome !== "pending") rows.push(["outcome", outcome]);
  if (!hasEnded(outcome)) rows.push(["active", shownId(jobId, status)]);
  if (endedMs !== undefined) rows.push(["ended", endedMs]);
  if (failing !== undefined) {
    const { sinceMs, tries, place } = failing;
    rows.push(["since", sinceMs], ["tries", tries], ["error", failing.class]);
    if (place !== undefined) {
      const cause = causeKeyText({ ...place, class: failing.class });
      rows.push(["cause", cause], [causeSinceList(cause), sinceMs]);
    }
  }
  if (behindSinceMs !== undefined) rows.push(["behind", behindValue(behindSinceMs)]);
  for (const flag of LISTED_FLAGS) if (hasFlag(status, flag)) rows.push(["flag", flag]);
  const ruleUuid = ruleUuidOf(jobId);
  return ruleUuid === undefined ? rows : [...rows, ...ruleRows(ruleUuid, status)];
}

/** The rows by which a rule is summed up. */
function ruleRows(ruleUuid: string, status: JobStatus): readonly StatusRow[] {
  const rows: StatusRow[] = [];
  for (const flag of RULE_FLAGS) {
    if (hasFlag(status, flag)) rows.push(["rule", ruleFlagValue(ruleUuid, flag)]);
  }
  const { behindSinceMs } = status;
  if (behindSinceMs !== undefined)
    rows.push([ruleBehindList(ruleUuid), behindValue(behindSinceMs)]);
  return rows;
}

/** The value in the list `rule` of the jobs of a rule that have a flag. */
export function ruleFlagValue(ruleUuid: string, flag: (typeof RULE_FLAGS)[number]): string {
  return `${ruleUuid} ${flag}`;
}

/** The list of the jobs of a rule that are behind, in the order of their lag. */
export function ruleBehindList(ruleUuid: string): `rule-behind ${string}` {
  return `rule-behind ${ruleUuid}`;
}

/** The list of the jobs that fail for one cause, by since when they do. */
export function causeSinceList(cause: string): `cause-since ${string}` {
  return `cause-since ${cause}`;
}

/** The value in the list `behind`: the longer the lag, the higher. */
export function behindValue(sinceMs: number): number {
  return -Math.floor(sinceMs);
}

/** By what `_scheduler/jobs` is ordered. */
export function shownId(jobId: string, { replicationId }: JobStatus): string {
  return listedName(replicationId ?? jobId);
}

export function hasFlag(status: JobStatus, flag: StatusFlag): boolean {
  switch (flag) {
    case "failing":
      return status.failing !== undefined;
    case "left_behind":
      return status.hasLeftBehind;
    case "paused":
      return status.isPaused;
    case "parked":
      return status.outcome === "parked";
    case "stalled":
      return status.isStalled;
  }
}

export type StatusCounter = readonly [list: string, value: StatusValue, uuid: string | null];

/** The counter that a row counts for; that of an outcome is of the jobs of one `_replicator` database, or of transient jobs. */
export function counterOf([list, value]: StatusRow, jobId: string): StatusCounter | undefined {
  if (!COUNTED.has(list)) return undefined;
  // Each has a time of its own: they are counted together.
  if (list === "behind") return [list, null, null];
  return [list, value, list === "outcome" ? databaseUuidOf(jobId) : null];
}

/** The counter of all jobs of one `_replicator` database; the queue counts those of all. */
export function counterOfDatabase(jobId: string): StatusCounter | undefined {
  const uuid = databaseUuidOf(jobId);
  return uuid === null ? undefined : ["all", null, uuid];
}

/** Of the `_replicator` database in the id of a persistent job; null in that of a transient one. */
function databaseUuidOf(jobId: string): string | null {
  const end = jobId.indexOf("|");
  return end < 0 ? null : jobId.slice(0, end);
}

/** Sorted and without doubles, so that equal places are equal lists. */
function placesOf(address: EndpointAddress | undefined): readonly string[] {
  if (address === undefined) return [];
  if (address.kind === "local") return [localPlace(address.database)];
  const url = validEndpointUrl(address);
  if (url === undefined) return [];
  return [...new Set([url.host, url.hostname].map(listedName))];
}

/** The stored form; the first element is the format's version. */
const FORMAT = 2;
/** An object, with the members of `JobStatus`. */
const FORMAT_OBJECT = 1;

type Failing = NonNullable<JobStatus["failing"]>;
type StoredFailing = readonly [
  sinceMs: Failing["sinceMs"],
  tries: Failing["tries"],
  failureClass: Failing["class"],
  side?: FailureCause["side"] | null,
  host?: string | null,
];

/** An array: the names of the members would take more room than their values. */
type StoredStatus = readonly [
  outcome: RunOutcome,
  flags: number,
  failing: StoredFailing | null,
  replicationId: string | null,
  endedMs: number | null,
  owner: string | null,
  source: readonly string[],
  target: readonly string[],
  behindSinceMs: number | null,
];

const PAUSED = 1;
const LEFT_BEHIND = 2;
const STALLED = 4;

export function encodeStatus(status: JobStatus): Uint8Array {
  const { outcome, failing, replicationId = null, endedMs = null, owner, source, target } = status;
  const flags =
    (status.isPaused ? PAUSED : 0) +
    (status.hasLeftBehind ? LEFT_BEHIND : 0) +
    (status.isStalled ? STALLED : 0);
  const failed = failing === undefined ? null : encodeFailing(failing);
  const { behindSinceMs = null } = status;
  const stored: StoredStatus = [
    outcome,
    flags,
    failed,
    replicationId,
    endedMs,
    owner,
    source,
    target,
    behindSinceMs,
  ];
  return packTuple([FORMAT, utf8Encode(JSON.stringify(stored))]);
}

export function decodeStatus(value: Uint8Array): JobStatus {
  const [format, text] = unpackTuple(value);
  assert(text instanceof Uint8Array, "A status is text");
  const stored: unknown = JSON.parse(utf8Slice(text, 0, text.length));
  if (format === FORMAT_OBJECT) {
    const status = stored as JobStatus;
    const { failing, replicationId } = status;
    return { ...status, failing, replicationId, endedMs: undefined, behindSinceMs: undefined };
  }
  assert(format === FORMAT, "A status has a format that this version knows");
  return decodeStored(stored as StoredStatus);
}

function decodeStored(stored: StoredStatus): JobStatus {
  const [outcome, flags, failing, replicationId, endedMs, owner, source, target, behindSinceMs] =
    stored;
  return {
    outcome,
    isPaused: (flags & PAUSED) !== 0,
    failing: failing === null ? undefined : decodeFailing(failing),
    hasLeftBehind: (flags & LEFT_BEHIND) !== 0,
    isStalled: (flags & STALLED) !== 0,
    replicationId: replicationId ?? undefined,
    endedMs: endedMs ?? undefined,
    behindSinceMs: behindSinceMs ?? undefined,
    owner,
    source,
    target,
  };
}

function encodeFailing({ sinceMs, tries, class: failureClass, place }: Failing): StoredFailing {
  const stored = [sinceMs, tries, failureClass] as const;
  return place === undefined ? stored : [...stored, place.side ?? null, place.host ?? null];
}

function decodeFailing([sinceMs, tries, failureClass, side, host]: StoredFailing): Failing {
  const isPlaced = side !== undefined;
  const place = isPlaced ? { side: side ?? undefined, host: host ?? undefined } : undefined;
  return { sinceMs, tries, class: failureClass, place };
}
