/**
 * Background jobs of any type in one transactional queue (RFC 007). Independent of replication.
 *
 * Reading order: job.ts, jobs.ts, labels.ts, pending-queue.ts, job-observer.ts, job-notes.ts;
 * standing.ts, groups.ts, group-index.ts, group-queue.ts, run-meter.ts; activity-monitor.ts,
 * job-subscriptions.ts; then worker.ts, workers.ts, lease.ts, worker-ring.ts, job-worker.ts,
 * slotless-jobs.ts.
 */
export { ActivityMonitor } from "./activity-monitor.ts";
export type { HeldJob, Job, JobData, JobName, JobState, JobType } from "./job.ts";
export type { StateCounts } from "./job-counts.ts";
export type { RequestForm } from "./job-data-store.ts";
export { JOB_KEY_SHAPES } from "./job-keys.ts";
export type { JobNotes } from "./job-notes.ts";
export type { JobChange, JobObserver } from "./job-observer.ts";
export type { JobSubscription, SubscriptionEvent, WaitOptions } from "./job-subscriptions.ts";
export { JobSubscriptions } from "./job-subscriptions.ts";
export type { Membership } from "./job-worker.ts";
export { JobWorker } from "./job-worker.ts";
export type { Acceptance, AcceptOptions, IdsWanted, NothingDue } from "./jobs.ts";
export { Jobs } from "./jobs.ts";
export {
  isJobLost,
  JobHaltedError,
  UnknownJobTypeError,
  WorkerExpelledError,
} from "./jobs-errors.ts";
export {
  areSameLabels,
  hasLabels,
  isLabel,
  LABEL_RULE,
  type Labels,
  labelSet,
  NO_LABELS,
  REQUIRED_LABELS_MAX,
  WORKER_LABELS_MAX,
} from "./labels.ts";
export type { LeaseEnding, LeaseRenewer, ReadyRenewer } from "./lease.ts";
export {
  InLoopLeaseRenewer,
  keepLease,
  RENEWALS_PER_LEASE,
  remainingMs,
  usedLeaseMs,
} from "./lease.ts";
export { LOOK_AGAIN_SEC } from "./pending-queue.ts";
export { RunMeter } from "./run-meter.ts";
export type { HeartbeatParts, SlotlessJobsParts, SlotlessJobType } from "./slotless-jobs.ts";
export { SlotlessJobs, showLife, whileAlive } from "./slotless-jobs.ts";
export type { FairShare } from "./standing.ts";
export {
  FAIR_SHARE_DEFAULT,
  SHARES_DEFAULT,
  SHARES_MAX,
  SHARES_MIN,
  usageSec,
} from "./standing.ts";
export type { Program, Worker, WorkerId, WorkerLease } from "./worker.ts";
export { Workers } from "./workers.ts";
