/**
 * Status of a job: the fields that determine which lists contain the job. One status is stored per
 * job. Its index rows and counters are derived from the status, so the rows to write for a change
 * are the difference between two statuses. Whether a job is running is not included, because the
 * queue stores this. Waiting jobs have no row for their state: a job without such a row is waiting
 * unless it is running. Pure.
 */

import { assert, utf8Slice } from "../../base/index.ts";
import type { FailureClass } from "../../contract/index.ts";
import type { Job } from "../../jobs/index.ts";
import { packJson, unpackTuple } from "../../kv/index.ts";
import { percentDecode } from "../../protocol/index.ts";
import type { StatusValue } from "../replicator-keys.ts";
import { validEndpointUrl } from "../request/endpoint-url.ts";
import type { EndpointAddress } from "../request/replication.ts";
import { splitTerm, tagTerms } from "../request/tags.ts";
import { isAwaiting, NEVER_SEC } from "./decide.ts";
import type { FailureCause } from "./failing.ts";
import { causeKeyText } from "./failure-cause.ts";
import { hasEnded, type RunOutcome } from "./job-data.ts";
import type { IndexedJob } from "./job-data-record.ts";
import { listedName, localPlace, REMOTE_MARK, remotePlace } from "./listed-name.ts";
import { ruleUuidOf } from "./rule-jobs.ts";

export interface JobStatus {
  /** Outcome of the last run, which is shown while the job is not running. */
  readonly outcome: RunOutcome;
  readonly isPaused: boolean;
  /** Whether the job waits for other jobs. */
  readonly isAwaiting: boolean;
  readonly failing:
    | {
        readonly sinceMs: number;
        readonly tries: number;
        /** Time of the last failed run; undefined in a status stored by an older version. */
        readonly lastMs: number | undefined;
        readonly class: FailureClass;
        /** The side and host of the failure; undefined in a status stored by an older version. */
        readonly place: Pick<FailureCause, "side" | "host"> | undefined;
      }
    | undefined;
  /** Whether the job has listed failures. */
  readonly hasLeftBehind: boolean;
  readonly isStalled: boolean;
  /** Time since which changes are known to be pending (`backlog.ts`), if any. */
  readonly behindSinceMs: number | undefined;
  /**
   * Whether the source has not yet responded since the job was added or last failed at the source.
   */
  readonly isUnread: boolean;
  readonly replicationId: string | undefined;
  /** End time of a transient job, if it has ended. */
  readonly endedMs: number | undefined;
  readonly owner: string | null;
  /**
   * Names under which lists contain the source (`placesOf`). For a remote source: host with port,
   * host, and database (`remotePlace`). For a local source: the database (`localPlace`).
   */
  readonly source: readonly string[];
  readonly target: readonly string[];
  /** Tags as `name:value`, sorted by name; empty if the store's format does not include tags. */
  readonly tags: readonly string[];
}

/**
 * Lists of jobs:
 * - `outcome`: last run crashed, failed or completed, or the job is parked
 * - `active`: not ended, by shown id
 * - `since`, `tries`: failing, by start and by number of failed runs
 * - `error`: failing, by class; `cause`: by class, side and host
 * - `cause-since`: failing for one cause, by time (`causeSinceList`)
 * - `ended`: ended transient jobs, by time
 * - `behind`: with pending changes, by lag
 * - `tag`: by `name:value`, and by name; `tag-since`: failing with one tag, by time
 * - `rule`: jobs of rules, by rule and flag; `rule-behind`: jobs of one rule with pending changes
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
  | "tag"
  | `tag-since ${string}`
  | "rule"
  | `rule-behind ${string}`;
export const STATUS_FLAGS = [
  "failing",
  "left_behind",
  "paused",
  "parked",
  "stalled",
  "unknown",
] as const;
export type StatusFlag = (typeof STATUS_FLAGS)[number];
/** Flags counted separately for each rule. */
const RULE_FLAGS = ["failing", "left_behind"] as const;
/**
 * Flags with rows in the list `flag`. Failing jobs are in the list `error` instead, and parked jobs
 * in the list `outcome`.
 */
export const LISTED_FLAGS = STATUS_FLAGS.filter((flag) => flag !== "failing" && flag !== "parked");

/** A row of a list. */
export type StatusRow = readonly [list: StatusList, value: StatusValue];

/**
 * Lists with counters. Other lists need no counters: `active`, `since`, `tries` and `cause-since`
 * each contain the same jobs as a list with a counter, and the length of `ended` is not used.
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
  "tag",
  "rule",
]);

type QueueFacts = Pick<Job, "state" | "scheduledAtSec">;
type AskedStatus = Pick<JobStatus, "owner" | "source" | "target" | "tags">;

/** Part of the status that depends only on the request. */
export function askedStatus({ replication, userName }: IndexedJob, hasTags: boolean): AskedStatus {
  const owner = userName === null ? null : listedName(userName);
  const [from, to] = [placesOf(replication?.source), placesOf(replication?.target)];
  // Each database of a pair is both a source and a target.
  const both = replication?.pair === true ? [...new Set([...from, ...to])].toSorted() : undefined;
  const [source, target] = [both ?? from, both ?? to];
  return { owner, source, target, tags: hasTags ? tagTerms(replication?.tags) : [] };
}

/** Computes the status of a job. Equal statuses have equal encodings. */
export function jobStatus(
  jobId: string,
  facts: QueueFacts,
  job: IndexedJob,
  { owner, source, target, tags }: AskedStatus,
  {
    hasLeftBehind,
    behindSinceMs,
    isUnread,
  }: Pick<JobStatus, "hasLeftBehind" | "behindSinceMs" | "isUnread">,
): JobStatus {
  const { failing, stallCount, replicationId, state: outcome, lastUpdatedMs } = job;
  const isEndedTransient = hasEnded(outcome) && databaseUuidOf(jobId) === null;
  return {
    outcome,
    isPaused: isPaused(facts),
    isAwaiting: isAwaiting(facts),
    failing: failing && {
      sinceMs: failing.sinceMs,
      tries: failing.tries,
      lastMs: failing.lastMs,
      class: failing.class,
      place: {
        side: failing.side,
        host: failing.host === undefined ? undefined : listedName(failing.host),
      },
    },
    hasLeftBehind,
    isStalled: stallCount > 0,
    behindSinceMs,
    isUnread,
    replicationId,
    endedMs: isEndedTransient ? lastUpdatedMs : undefined,
    owner,
    source,
    target,
    tags,
  };
}

/** Updates a status after the job has returned to the queue or its due time has changed. */
export function withFacts(status: JobStatus, facts: QueueFacts): JobStatus {
  return { ...status, isPaused: isPaused(facts), isAwaiting: isAwaiting(facts) };
}

function isPaused({ state, scheduledAtSec }: QueueFacts): boolean {
  return state !== "finished" && scheduledAtSec === NEVER_SEC;
}

/** Returns the index rows that depend only on the request. */
export function askedRows({ owner, source, target, tags }: AskedStatus): readonly StatusRow[] {
  return [
    ["owner", owner],
    ...termsOf(tags).map((term): StatusRow => ["tag", term]),
    ...source.map((place): StatusRow => ["source", place]),
    ...target.map((place): StatusRow => ["target", place]),
  ];
}

/** Returns the index rows that change with the job's progress. */
export function progressRows(jobId: string, status: JobStatus): readonly StatusRow[] {
  const { outcome, failing, endedMs, behindSinceMs, tags } = status;
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
    for (const tag of tags) rows.push([tagSinceList(tag), sinceMs]);
  }
  if (behindSinceMs !== undefined) rows.push(["behind", behindValue(behindSinceMs)]);
  for (const flag of LISTED_FLAGS) if (hasFlag(status, flag)) rows.push(["flag", flag]);
  const ruleUuid = ruleUuidOf(jobId);
  return ruleUuid === undefined ? rows : [...rows, ...ruleRows(ruleUuid, status)];
}

/** Returns the index rows of a job for the summary of its rule. */
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

/** Returns the value in the list `rule` for those jobs of a rule that have this flag. */
export function ruleFlagValue(ruleUuid: string, flag: (typeof RULE_FLAGS)[number]): string {
  return `${ruleUuid} ${flag}`;
}

/** Returns the name of the list of a rule's jobs with pending changes, sorted by lag. */
export function ruleBehindList(ruleUuid: string): `rule-behind ${string}` {
  return `rule-behind ${ruleUuid}`;
}

/** Returns the name of the list of jobs failing for one cause, sorted by the first failed run. */
export function causeSinceList(cause: string): `cause-since ${string}` {
  return `cause-since ${cause}`;
}

/** Returns the name of the list of failing jobs with one tag, sorted by the first failed run. */
export function tagSinceList(tag: string): `tag-since ${string}` {
  return `tag-since ${tag}`;
}

/**
 * Returns the terms by which jobs with these tags are listed: `name:value` and `name` of each tag.
 */
function termsOf(tags: readonly string[]): readonly string[] {
  return tags.flatMap((tag) => [tag, splitTerm(tag)[0]]);
}

/** Returns the value for the list `behind`: the longer the lag, the greater the value. */
export function behindValue(sinceMs: number): number {
  return -Math.floor(sinceMs);
}

/** Returns the id by which `_scheduler/jobs` is sorted. */
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
    case "unknown":
      return status.isUnread && hasLag(status) && !hasEnded(status.outcome);
  }
}

/**
 * Whether the lag of a job counts in alerts and metrics. Paused jobs, and jobs that wait for other
 * jobs, are behind on purpose.
 */
export function hasLag({ isPaused, isAwaiting }: JobStatus): boolean {
  return !isPaused && !isAwaiting;
}

export type StatusCounter = readonly [list: string, value: StatusValue, uuid: string | null];

/** Returns the counter of a row. Outcomes are counted per `_replicator` database. */
export function counterOf([list, value]: StatusRow, jobId: string): StatusCounter | undefined {
  if (!COUNTED.has(list) || isRemoteDatabase(list, value)) return undefined;
  // Values in the list `behind` are distinct, so its rows are not counted by value.
  if (list === "behind") return [list, null, null];
  return [list, value, list === "outcome" ? databaseUuidOf(jobId) : null];
}

/**
 * Counters by tag without a corresponding list: for failing jobs, and for jobs by the outcome of
 * their last run.
 */
export const TAG_COUNTERS = ["failing", "parked", "crashing", "completed", "failed"] as const;
export type TagCounter = (typeof TAG_COUNTERS)[number];

export function tagCounterList(counter: TagCounter): `tag-${TagCounter}` {
  return `tag-${counter}`;
}

export function tagCountersOf({ tags, failing, outcome }: JobStatus): readonly StatusCounter[] {
  const counters: TagCounter[] = failing === undefined ? [] : ["failing"];
  if (outcome !== "pending") counters.push(outcome);
  return termsOf(tags).flatMap((term) =>
    counters.map((counter): StatusCounter => [tagCounterList(counter), term, null]),
  );
}

/**
 * Whether a row is for a database on another server. Such a row has no counter, because there can
 * be as many databases as jobs.
 */
function isRemoteDatabase(list: StatusList, value: StatusValue): boolean {
  if (list !== "source" && list !== "target") return false;
  return typeof value === "string" && value.startsWith(REMOTE_MARK);
}

/**
 * Returns the counter for all jobs in the job's `_replicator` database; undefined for a transient
 * job. The queue counts the overall total.
 */
export function counterOfDatabase(jobId: string): StatusCounter | undefined {
  const uuid = databaseUuidOf(jobId);
  return uuid === null ? undefined : ["all", null, uuid];
}

/** Returns the `_replicator` database's uuid in a persistent job's id; null for a transient job. */
function databaseUuidOf(jobId: string): string | null {
  const end = jobId.indexOf("|");
  return end < 0 ? null : jobId.slice(0, end);
}

/**
 * Returns the names under which lists contain an endpoint. They are sorted and distinct, so that
 * equal endpoints have equal encodings.
 */
function placesOf(address: EndpointAddress | undefined): readonly string[] {
  if (address === undefined) return [];
  if (address.kind === "local") return [localPlace(address.database)];
  const url = validEndpointUrl(address);
  if (url === undefined) return [];
  const hosts = [...new Set([url.host, url.hostname].map(listedName))];
  const [path = ""] = url.written.path.split(/[?#]/, 1);
  const database = path.split("/").findLast((segment) => segment !== "") ?? "";
  return [...hosts, remotePlace(percentDecode(database) ?? database)];
}

/** Format version, stored as the first element. */
const FORMAT = 2;
/** Format of older versions: an object with the members of `JobStatus`. */
const FORMAT_OBJECT = 1;

type Failing = NonNullable<JobStatus["failing"]>;
type StoredFailing = readonly [
  sinceMs: Failing["sinceMs"],
  tries: Failing["tries"],
  failureClass: Failing["class"],
  side?: FailureCause["side"] | null,
  host?: string | null,
  lastMs?: Failing["lastMs"],
];

/**
 * Stored form of a status: an array, because member names would take more space than the values.
 */
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
  tags?: readonly string[],
];

/** Members that a status stored in `FORMAT_OBJECT` lacks. */
const UNSTORED = {
  endedMs: undefined,
  isAwaiting: false,
  behindSinceMs: undefined,
  isUnread: false,
  tags: [],
};

const PAUSED = 1;
const LEFT_BEHIND = 2;
const STALLED = 4;
const UNREAD = 8;
const AWAITING = 16;

export function encodeStatus(status: JobStatus): Uint8Array {
  const { outcome, failing, replicationId = null, endedMs = null, owner, source, target } = status;
  const flags =
    (status.isPaused ? PAUSED : 0) +
    (status.hasLeftBehind ? LEFT_BEHIND : 0) +
    (status.isStalled ? STALLED : 0) +
    (status.isUnread ? UNREAD : 0) +
    (status.isAwaiting ? AWAITING : 0);
  const failed = failing === undefined ? null : encodeFailing(failing);
  const { behindSinceMs = null } = status;
  const untagged: StoredStatus = [
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
  // Omit an empty list of tags, so that this version encodes a status without tags exactly as older
  // versions do, which do not know tags.
  const stored = status.tags.length === 0 ? untagged : [...untagged, status.tags];
  return packJson(FORMAT, stored);
}

export function decodeStatus(value: Uint8Array): JobStatus {
  const [format, text] = unpackTuple(value);
  assert(text instanceof Uint8Array, "A stored status must be encoded JSON");
  const stored: unknown = JSON.parse(utf8Slice(text, 0, text.length));
  if (format === FORMAT_OBJECT) {
    const status = stored as JobStatus;
    const { failing, replicationId } = status;
    return {
      ...status,
      failing: failing && { ...failing, lastMs: undefined },
      replicationId,
      ...UNSTORED,
    };
  }
  assert(format === FORMAT, "A status must have a supported format version");
  return decodeStored(stored as StoredStatus);
}

function decodeStored(stored: StoredStatus): JobStatus {
  const [outcome, flags, failing, replicationId, endedMs, ...asked] = stored;
  const [owner, source, target, behindSinceMs, tags = []] = asked;
  return {
    outcome,
    isPaused: (flags & PAUSED) !== 0,
    isAwaiting: (flags & AWAITING) !== 0,
    failing: failing === null ? undefined : decodeFailing(failing),
    hasLeftBehind: (flags & LEFT_BEHIND) !== 0,
    isStalled: (flags & STALLED) !== 0,
    isUnread: (flags & UNREAD) !== 0,
    replicationId: replicationId ?? undefined,
    endedMs: endedMs ?? undefined,
    behindSinceMs: behindSinceMs ?? undefined,
    owner,
    source,
    target,
    tags,
  };
}

function encodeFailing(failing: Failing): StoredFailing {
  const { sinceMs, tries, lastMs, class: failureClass, place } = failing;
  const stored = [sinceMs, tries, failureClass] as const;
  return place === undefined ? stored : [...stored, place.side ?? null, place.host ?? null, lastMs];
}

function decodeFailing([sinceMs, tries, failureClass, side, host, lastMs]: StoredFailing): Failing {
  const isPlaced = side !== undefined;
  const place = isPlaced ? { side: side ?? undefined, host: host ?? undefined } : undefined;
  return { sinceMs, tries, lastMs: lastMs ?? undefined, class: failureClass, place };
}
