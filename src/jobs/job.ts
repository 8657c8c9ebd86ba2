/**
 * The nouns of the queue (RFC 007, `couch_jobs`).
 *
 * A job has a type, an id within the type, and data. The stored facts determine the state, so the two cannot disagree:
 *
 *   pending      no lock, in the queue at its scheduled time
 *   running      a lock, and a place in the activity order; `resubmitted` when one more run was requested meanwhile
 *   finished     no lock, not in the queue; kept until it is removed
 */
import type { Versionstamp } from "../kv/index.ts";

export type JobType = string;

/** A worker's registration (`worker.ts`). */
export type WorkerId = string;

/** For how long a running job of a type may be silent. */
export interface TypeTimeout {
  readonly timeoutSec: number;
  /** What counted before; the same when it was never changed. Jobs that began then may still keep to it. */
  readonly formerTimeoutSec: number;
}

export interface JobName {
  readonly type: JobType;
  readonly id: string;
}

/**
 * What is stored with a job: any JSON object. The queue does not look into it.
 *
 * A job has its data, which a holder writes as often as it likes, and may have a request, which stays as it was added: what is
 * large and does not change is not written again with each sign of life.
 */
export type JobData = Readonly<Record<string, unknown>>;

/** When a job is to run, and for whom. */
export interface JobPlan {
  /** Seconds since the epoch; 0 is "any time". */
  readonly scheduledAtSec: number;
  /** Who shares the slots with others (`groups.ts`); undefined: the job waits in plain order. */
  readonly group: string | undefined;
}

/** What is the same whatever a job's state is. */
export interface JobTerms extends JobPlan {
  /** Whether there is a request beside the data, or will for the next run. */
  readonly hasRequest: boolean;
}

/** The facts that are stored about a job, beside its data. */
export type JobFacts = JobTerms & JobProgress;

type JobProgress =
  | { readonly state: "pending" }
  | {
      readonly state: "running";
      readonly lock: string;
      /** When it was accepted or last updated: its place in the activity order. */
      readonly activity: Versionstamp;
      readonly resubmitted: boolean;
      /** Who holds it; undefined for a processor without a worker, which only the activity monitor watches over. */
      readonly worker: WorkerId | undefined;
    }
  | { readonly state: "finished" };

export type RunningFacts = JobFacts & { readonly state: "running" };

export type JobState = JobFacts["state"];

/** A job as a reader sees it. */
export interface Job extends JobName, JobPlan {
  readonly state: JobState;
  /** The worker that runs it; undefined while it does not run, and for a processor without a worker. */
  readonly worker: WorkerId | undefined;
  readonly data: JobData;
  /** Undefined for a job that was added without one. */
  readonly request: JobData | undefined;
}

/** What tells that something has happened to a job; `activity` moves with each acceptance and update, and is undefined while it does not run. */
export interface JobSigns extends Pick<Job, "state" | "scheduledAtSec"> {
  readonly activity: string | undefined;
}

/** A job with its signs. */
export interface Observation {
  readonly job: Job;
  readonly activity: string | undefined;
}

/** A job in the hands of the processor that accepted it. The lock is drawn at acceptance and proves the holding. */
export interface HeldJob extends JobName {
  readonly lock: string;
}
