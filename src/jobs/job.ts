/**
 * Data types of the queue (RFC 007, `couch_jobs`).
 *
 * A job has a type, an id within the type, and data. The stored facts determine the state, so the
 * two cannot disagree:
 *
 *   pending      no lock, in the queue at its scheduled time
 *   running      a lock, and a place in the activity order; `resubmitted` if another run was
 *                requested during this one
 *   finished     no lock, not in the queue; kept until it is removed
 */
import type { Versionstamp } from "../kv/index.ts";

export type JobType = string;

/** Id of a worker's registration (`worker.ts`). */
export type WorkerId = string;

/** Maximum silence of running jobs of a type. */
export interface TypeTimeout {
  readonly timeoutSec: number;
  /**
   * The previous timeout, or the same one if it never changed. Jobs accepted before the change may
   * still use it.
   */
  readonly formerTimeoutSec: number;
}

export interface JobName {
  readonly type: JobType;
  readonly id: string;
}

/**
 * A JSON object stored with a job, opaque to the queue.
 *
 * A job has data, which its worker writes as often as it likes, and may have a request, which stays
 * as it was added, so that large constant parts are not rewritten with each heartbeat.
 */
export type JobData = Readonly<Record<string, unknown>>;

/** Due time and group of a job. */
export interface JobPlan {
  /** Seconds since the epoch; 0 for any time. */
  readonly scheduledAtSec: number;
  /**
   * The group with which it shares slots (`groups.ts`). Jobs without one wait in plain order.
   */
  readonly group: string | undefined;
}

/** Facts of a job that do not depend on its state. */
export interface JobTerms extends JobPlan {
  /** Whether the job has a request next to its data, now or for the next run. */
  readonly hasRequest: boolean;
}

/** Facts stored with a job, next to its data. */
export type JobFacts = JobTerms & JobProgress;

type JobProgress =
  | { readonly state: "pending" }
  | {
      readonly state: "running";
      readonly lock: string;
      /** Time of acceptance or of the last update: the place in the activity order. */
      readonly activity: Versionstamp;
      readonly resubmitted: boolean;
      /**
       * The worker that runs it; undefined for a processor without one, which is supervised only by
       * the activity monitor.
       */
      readonly worker: WorkerId | undefined;
    }
  | { readonly state: "finished" };

export type RunningFacts = JobFacts & { readonly state: "running" };

export type JobState = JobFacts["state"];

/** A job as a reader sees it. */
export interface Job extends JobName, JobPlan {
  readonly state: JobState;
  /**
   * The worker that runs it; undefined if it is not running, or for a processor without a worker.
   */
  readonly worker: WorkerId | undefined;
  readonly data: JobData;
  /** Absent if the job was added without one. */
  readonly request: JobData | undefined;
}

/**
 * Values that change when something happens to a job. `activity` changes with each acceptance and
 * update, and is undefined while the job does not run.
 */
export interface JobSigns extends Pick<Job, "state" | "scheduledAtSec"> {
  readonly activity: string | undefined;
}

/** A job with its signs. */
export interface Observation {
  readonly job: Job;
  readonly activity: string | undefined;
}

/**
 * A job held by the processor that accepted it. The lock is drawn at acceptance and proves
 * ownership.
 */
export interface HeldJob extends JobName {
  readonly lock: string;
}
