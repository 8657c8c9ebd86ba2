/** Removes a job and all its records, and halts its run (`halted-runs.ts`). */
import type { Job, Jobs } from "../../jobs/index.ts";
import type { Transaction } from "../../kv/index.ts";
import type { Backlogs } from "../job-lists/backlogs.ts";
import type { JobRuns } from "../job-log/job-runs.ts";
import type { HaltedRuns } from "../job-watching/halted-runs.ts";
import type { ParkedJobs } from "../job-watching/parked-jobs.ts";
import type { JobControls } from "../jobs/job-controls.ts";
import { decodeJob } from "../jobs/job-data-record.ts";
import type { ReplicationOwnership } from "./replication-ownership.ts";

export interface RemoveJobParts {
  readonly jobs: Jobs;
  readonly ownership: ReplicationOwnership;
  readonly controls: JobControls;
  readonly backlogs: Backlogs;
  readonly runs: JobRuns;
  readonly parked: ParkedJobs;
  readonly halted: HaltedRuns;
}

export async function removeJob(
  { jobs, ownership, controls, backlogs, runs, parked, halted }: RemoveJobParts,
  tx: Transaction,
  job: Job,
): Promise<void> {
  const { replicationId, userName, vouched } = decodeJob(job);
  await ownership.release(tx, replicationId, { jobId: job.id, userName, vouched });
  const run = await jobs.runOf(tx, job);
  if (run !== undefined) halted.note(tx, { ...run, jobId: job.id }, replicationId);
  await jobs.remove(tx, job);
  controls.remove(tx, job.id);
  backlogs.remove(tx, job.id);
  runs.remove(tx, job.id);
  await parked.remove(tx, job.id);
}
