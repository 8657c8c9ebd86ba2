/**
 * Data types of the queue (RFC 007, `couch_jobs`).
 *
 * A job has a type, an id within the type, and data. The state is derived from the stored facts:
 *
 *   pending      no lock, in the queue at its scheduled time
 *   running      a lock, and a position in the activity order; `resubmitted` if another run was
 *                requested during this one
 *   finished     no lock, not in the queue; kept until it is removed
 */
import type { Versionstamp } from "../kv/index.ts";

export type JobType = string;

/** Id of a worker's registration (`worker.ts`). */
export type WorkerId = string;

/** Maximum time between two heartbeats of a running job of a type. */
export interface TypeTimeout {
  readonly timeoutSec: number;
  /**
   * The previous timeout; equal to the current timeout if it never changed. Jobs accepted before
   * the change might still use the previous timeout.
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
 * A job has data, which its worker can write at any time. It can also have a request for large
 * constant parts, which is not rewritten with each heartbeat.
 */
export type JobData = Readonly<Record<string, unknown>>;

/** Labels that a worker has or a job requires (`labels.ts`), sorted and distinct. */
export type Labels = readonly string[];

/** Due time, group and placement of a job. */
export interface JobPlan {
  /** Due time in seconds since the epoch; 0 if the job can run at any time. */
  readonly scheduledAtSec: number;
  /**
   * The group in which the job shares slots (`groups.ts`). Jobs without a group are ordered by due
   * time.
   */
  readonly group: string | undefined;
  /** Labels that a worker must have to run the job. */
  readonly labels: Labels;
}

/** Facts that a job has in every state. */
export interface JobTerms extends JobPlan {
  /** Whether the job has a request for the current or the next run. */
  readonly hasRequest: boolean;
}

/** Stored state of a job, next to its data. */
export type JobFacts = JobTerms & JobProgress;

type JobProgress =
  | { readonly state: "pending" }
  | {
      readonly state: "running";
      readonly lock: string;
      /** Time of acceptance or of the last update. Position in the activity order. */
      readonly activity: Versionstamp;
      readonly resubmitted: boolean;
      /**
       * The worker that runs the job; undefined for a processor without a worker, which is
       * supervised only by the activity monitor.
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
   * The worker that runs the job; undefined if the job is not running, or for a processor without a
   * worker.
   */
  readonly worker: WorkerId | undefined;
  readonly data: JobData;
  /** Request of the job; absent if the job was added without a request. */
  readonly request: JobData | undefined;
}

/**
 * Values by which a change of a job is detected. `activity` changes with each acceptance and
 * update, and is undefined while the job does not run.
 */
export interface JobSigns extends Pick<Job, "state" | "scheduledAtSec"> {
  readonly activity: string | undefined;
}

/** A job with the values by which its changes are detected. */
export interface Observation {
  readonly job: Job;
  readonly activity: string | undefined;
}

/**
 * A job held by the processor that accepted it. The lock is generated at acceptance and
 * proves ownership.
 */
export interface HeldJob extends JobName {
  readonly lock: string;
}
