/** The operator's filter for jobs. Pure functions. */
import { NO_PLACE } from "../jobs/failing.ts";
import { type CauseFilter, type FailureCauseKey, matchesCause } from "../jobs/failure-cause.ts";
import type { Glob } from "../jobs/glob.ts";
import { type ReplicationJobData, type ReplicationState, shownState } from "../jobs/job-data.ts";
import { jobName } from "../jobs/job-name.ts";
import { hasFlag, type JobStatus, STATUS_FLAGS, type StatusFlag } from "../jobs/job-status.ts";
import { databaseOfPlace, listedName, localPlace } from "../jobs/listed-name.ts";
import { splitTerm } from "../request/tags.ts";
import type { Backlog } from "./backlog.ts";

/** Filter for jobs whose names match a pattern. */
export interface NameFilter {
  readonly glob: Glob;
  /** Prefixes of the ids of all jobs that can match; undefined if any job can. */
  readonly idPrefixes: readonly string[] | undefined;
}

/** A filter for jobs. A job must match all members that are set. */
export interface JobFilter extends Partial<Readonly<Record<StatusFlag, boolean>>>, CauseFilter {
  /** States to match, as shown by `_scheduler`. */
  readonly states?: readonly ReplicationState[];
  /** Uuid of the job's `_replicator` database or rule. */
  readonly databaseUuid?: string;
  /** Host of the source (`example.com`, `example.com:5984`), or name of a local database. */
  readonly source?: string;
  /** Host of the target, or name of a local database. */
  readonly target?: string;
  /** Pattern for the name of the source database, on any server. */
  readonly sourceDatabase?: Glob;
  readonly targetDatabase?: Glob;
  readonly owner?: string;
  /** Tags that the job must have: `name:value`, or `name` to match any value. */
  readonly tags?: readonly string[];
  /** Text that the last failure of a failing job must contain. */
  readonly reason?: string;
  /** Selects jobs that fell behind at this time or earlier, and have been behind since then. */
  readonly behindSinceMs?: number;
  readonly name?: NameFilter;
  /**
   * Selects jobs whose source has confirmed that no change is pending. The index has no list of
   * these jobs.
   */
  readonly isCaughtUp?: true;
}

/**
 * Checks all members except `reason`, `name` and `databaseUuid`. A job that passes the check for
 * `isCaughtUp` can still have an unknown backlog; `isProvenCaughtUp` checks that.
 */
export function matchesStatus(filter: JobFilter, status: JobStatus, isRunning: boolean): boolean {
  const { states, source, target, owner, behindSinceMs, isCaughtUp = false } = filter;
  const { sourceDatabase, targetDatabase, tags } = filter;
  return (
    (states === undefined || states.includes(shownState(status.outcome, isRunning))) &&
    (owner === undefined || listedName(owner) === status.owner) &&
    (tags === undefined || tags.every((tag) => hasTag(status, tag))) &&
    (source === undefined || isAmong(placesNamed(source), status.source)) &&
    (target === undefined || isAmong(placesNamed(target), status.target)) &&
    (sourceDatabase === undefined || hasDatabase(status.source, sourceDatabase)) &&
    (targetDatabase === undefined || hasDatabase(status.target, targetDatabase)) &&
    matchesCause(filter, causeOf(status)) &&
    (behindSinceMs === undefined || isBehind(status, behindSinceMs)) &&
    !(isCaughtUp && status.behindSinceMs !== undefined) &&
    STATUS_FLAGS.every(
      (flag) => filter[flag] === undefined || filter[flag] === hasFlag(status, flag),
    )
  );
}

/** Whether a job has the tag `wanted`: `name:value`, or `name` to match any value. */
export function hasTag({ tags }: Pick<JobStatus, "tags">, wanted: string): boolean {
  if (splitTerm(wanted)[1] !== undefined) return tags.includes(wanted);
  return tags.some((tag) => splitTerm(tag)[0] === wanted);
}

function hasDatabase(places: readonly string[], databases: Glob): boolean {
  return places.some((place) => {
    const database = databaseOfPlace(place);
    return database !== undefined && databases.match(database) !== undefined;
  });
}

function causeOf({ failing }: JobStatus): FailureCauseKey | undefined {
  return failing && { ...NO_PLACE, ...failing.place, class: failing.class };
}

function isBehind({ behindSinceMs }: JobStatus, sinceMs: number): boolean {
  return behindSinceMs !== undefined && behindSinceMs <= sinceMs;
}

/**
 * Whether the job belongs to the `_replicator` database or rule with this uuid. True for all jobs
 * if the uuid is undefined.
 */
export function isOfDatabase(jobId: string, databaseUuid: string | undefined): boolean {
  return databaseUuid === undefined || jobId.startsWith(`${databaseUuid}|`);
}

export function matchesReason(
  reason: string,
  { failing }: Pick<ReplicationJobData, "failing">,
): boolean {
  return failing !== undefined && `${failing.error}: ${failing.reason}`.includes(reason);
}

/** Whether the source has answered and has no pending changes for the job. */
export function isProvenCaughtUp(backlog: Backlog | undefined): boolean {
  return backlog !== undefined && backlog.sinceMs === undefined;
}

export function matchesName(
  { glob }: NameFilter,
  { jobId, data }: { readonly jobId: string; readonly data: Parameters<typeof jobName>[1] },
): boolean {
  return glob.match(jobName(jobId, data)) !== undefined;
}

/**
 * Returns the two names that a place can have in lists: as a host, in lower case, and as a local
 * database.
 */
export function placesNamed(place: string): readonly string[] {
  const name = place.toLowerCase();
  return [listedName(name), localPlace(name)];
}

/** Whether `places`, a list of hosts and databases, includes one of the names. */
export function isAmong(named: readonly string[], places: readonly string[]): boolean {
  return named.some((name) => places.includes(name));
}
