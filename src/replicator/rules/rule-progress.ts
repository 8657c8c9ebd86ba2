/** Progress of a rule's follower job. Stored in the queue as the data of the job. */
import type { JobData } from "../../jobs/index.ts";
import type { FailureCause, ReplicationFailure } from "../jobs/failing.ts";

/** Maximum number of faults stored; additional ones are only counted. */
const FAULTS_MAX = 10;

/** A matching database that cannot be copied. */
export interface RuleFault {
  readonly database: string;
  readonly reason: string;
}

export interface RuleProgress {
  /** Number of consecutive runs that could not reach the source. */
  readonly attempt: number;
  /** End of the last complete listing, if any. */
  readonly listedMs: number | undefined;
  /** Number of matching databases in the last listing, if any. */
  readonly matchedCount: number | undefined;
  /** Number of matching databases that cannot be copied. `faults` contains the first of them. */
  readonly faultCount: number;
  readonly faults: readonly RuleFault[];
  /** How new databases are detected; undefined if the source has not been asked yet. */
  readonly followedBy: "feed" | "lists" | undefined;
  /** Reason why the source could not be listed, if any. */
  readonly failure: RuleFailure | undefined;
}

/** Why a rule cannot list its source. `cause` is absent if no request has failed. */
export interface RuleFailure extends ReplicationFailure {
  readonly cause?: Pick<FailureCause, "class" | "host">;
}

export const NO_PROGRESS: RuleProgress = {
  attempt: 0,
  listedMs: undefined,
  matchedCount: undefined,
  faultCount: 0,
  faults: [],
  followedBy: undefined,
  failure: undefined,
};

/** Counts the databases of one listing. */
export class ListingCount {
  matchedCount = 0;
  faultCount = 0;
  readonly faults: RuleFault[] = [];

  /**
   * Counts a matching database. `reason`: why the database cannot be copied; undefined if it can
   * be.
   */
  matched(database: string, reason: string | undefined): void {
    this.matchedCount++;
    if (reason === undefined) return;
    this.faultCount++;
    if (this.faults.length < FAULTS_MAX) this.faults.push({ database, reason });
  }
}

export function encodeRuleProgress(progress: RuleProgress): JobData {
  return { ...progress };
}

/** Decodes the data of a follower's job, which is empty before its first run. */
export function decodeRuleProgress(data: JobData): RuleProgress {
  const stored: Partial<RuleProgress> = data;
  return { ...NO_PROGRESS, ...stored };
}
