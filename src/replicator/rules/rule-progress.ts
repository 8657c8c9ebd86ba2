/** What the job that follows a rule has found: its data in the queue. */
import type { JobData } from "../../jobs/index.ts";
import type { ReplicationFailure } from "../jobs/failing.ts";

/** Faults that are kept; the others are counted. */
const FAULTS_MAX = 10;

/** A database that matches and cannot be copied. */
export interface RuleFault {
  readonly database: string;
  readonly reason: string;
}

export interface RuleProgress {
  /** Runs in a row that could not ask the source. */
  readonly attempt: number;
  /** When the databases were listed last, to the end; undefined: never. */
  readonly listedMs: number | undefined;
  /** Databases of that list that match; undefined: there was none. */
  readonly matchedCount: number | undefined;
  /** Of these, how many cannot be copied, and the first ones. */
  readonly faultCount: number;
  readonly faults: readonly RuleFault[];
  /** How it hears of new databases; undefined: nobody has asked the source yet. */
  readonly followedBy: "feed" | "lists" | undefined;
  /** Why the source could not be listed; undefined: it could. */
  readonly failure: ReplicationFailure | undefined;
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

/** What one look through all databases has found. */
export class ListingCount {
  matchedCount = 0;
  faultCount = 0;
  readonly faults: RuleFault[] = [];

  /** A database matches; `reason`: why it cannot be copied. */
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

/** Of a rule that nobody has followed yet, the data are empty. */
export function decodeRuleProgress(data: JobData): RuleProgress {
  const stored: Partial<RuleProgress> = data;
  return { ...NO_PROGRESS, ...stored };
}
