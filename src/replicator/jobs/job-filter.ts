/** The filter with which an operator chooses jobs. Pure. */
import { NO_PLACE } from "./failing.ts";
import { type CauseFilter, type FailureCauseKey, matchesCause } from "./failure-cause.ts";
import { type ReplicationJobData, type ReplicationState, shownState } from "./job-data.ts";
import { hasFlag, type JobStatus, STATUS_FLAGS, type StatusFlag } from "./job-status.ts";
import { listedName, localPlace } from "./listed-name.ts";

/** A job has to match all members that are there. */
export interface JobFilter extends Partial<Readonly<Record<StatusFlag, boolean>>>, CauseFilter {
  /** Any of these, as `_scheduler` shows them. */
  readonly states?: readonly ReplicationState[];
  /** The `_replicator` database of the job's document, or the rule that made it. */
  readonly databaseUuid?: string;
  /** The host of the source (`example.com`, `example.com:5984`), or the name of a database of our own. */
  readonly source?: string;
  /** The same for the target. */
  readonly target?: string;
  readonly owner?: string;
  /** Stands in the words of the last failure of a job that fails. */
  readonly reason?: string;
  /** Behind since this time or longer. */
  readonly behindSinceMs?: number;
  /** Not behind, as far as is known. Has no list of its own. */
  readonly isCaughtUp?: true;
}

/** All but `reason` and `databaseUuid`, which the status does not tell. `isRunning` matters where states are asked for. */
export function matchesStatus(filter: JobFilter, status: JobStatus, isRunning: boolean): boolean {
  const { states, source, target, owner, behindSinceMs, isCaughtUp = false } = filter;
  return (
    (states === undefined || states.includes(shownState(status.outcome, isRunning))) &&
    (owner === undefined || listedName(owner) === status.owner) &&
    (source === undefined || isAmong(placesNamed(source), status.source)) &&
    (target === undefined || isAmong(placesNamed(target), status.target)) &&
    matchesCause(filter, causeOf(status)) &&
    (behindSinceMs === undefined || isBehind(status, behindSinceMs)) &&
    !(isCaughtUp && status.behindSinceMs !== undefined) &&
    STATUS_FLAGS.every(
      (flag) => filter[flag] === undefined || filter[flag] === hasFlag(status, flag),
    )
  );
}

function causeOf({ failing }: JobStatus): FailureCauseKey | undefined {
  return failing && { ...NO_PLACE, ...failing.place, class: failing.class };
}

function isBehind({ behindSinceMs }: JobStatus, sinceMs: number): boolean {
  return behindSinceMs !== undefined && behindSinceMs <= sinceMs;
}

/** Whether it is a job of the `_replicator` database or the rule, where one is asked for. */
export function isOfDatabase(jobId: string, databaseUuid: string | undefined): boolean {
  return databaseUuid === undefined || jobId.startsWith(`${databaseUuid}|`);
}

export function matchesReason(
  reason: string,
  { failing }: Pick<ReplicationJobData, "failing">,
): boolean {
  return failing !== undefined && `${failing.error}: ${failing.reason}`.includes(reason);
}

/** As lists have it: a host, in any case, or a database of our own, whose names have no capitals. */
export function placesNamed(place: string): readonly string[] {
  const name = place.toLowerCase();
  return [listedName(name), localPlace(name)];
}

function isAmong(named: readonly string[], places: readonly string[]): boolean {
  return named.some((name) => places.includes(name));
}
