/** `couch-tandem/jobs`: the queue of background jobs, for job types of the caller. */
export type { Job, JobData, JobName, JobState } from "../../jobs/index.ts";
export { JobHaltedError, UnknownJobTypeError } from "../../jobs/index.ts";
export type {
  AcceptedJobs,
  AddOptions,
  HeldJob,
  JobChange,
  JobCountsOfState,
  JobQueue,
  RunOptions,
} from "../jobs/queue.ts";
export { openQueue } from "../jobs/queue.ts";
export type { JobHandler, JobInTransaction, RunningJob } from "../jobs/type-runner.ts";
