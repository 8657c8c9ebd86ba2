/**
 * Background jobs of any type in one transactional queue (RFC 007). Knows nothing of replication.
 *
 * Reading order: job.ts, jobs.ts, activity-monitor.ts.
 */
export { ActivityMonitor } from "./activity-monitor.ts";
export type { HeldJob, Job, JobData, JobName, JobState, JobType } from "./job.ts";
export { JOB_KEY_SHAPES } from "./job-keys.ts";
export type { Acceptance } from "./jobs.ts";
export { Jobs } from "./jobs.ts";
export { JobHaltedError, UnknownJobTypeError } from "./jobs-errors.ts";
