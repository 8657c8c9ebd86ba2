/** Removes a job from the queue, with everything that is stored beside it. Its holder is halted. */
import type { Job, Jobs } from "../../jobs/index.ts";
import type { Transaction } from "../../kv/index.ts";
import type { Backlogs } from "./backlogs.ts";
import type { JobControls } from "./job-controls.ts";
import { decodeJob } from "./job-data-record.ts";
import type { JobRuns } from "./job-runs.ts";
import type { ParkedJobs } from "./parked-jobs.ts";
import type { ReplicationOwnership } from "./replication-ownership.ts";

export interface RemoveJobParts {
  readonly jobs: Jobs;
  readonly ownership: ReplicationOwnership;
  readonly controls: JobControls;
  readonly backlogs: Backlogs;
  readonly runs: JobRuns;
  readonly parked: ParkedJobs;
}

export async function removeJob(
  { jobs, ownership, controls, backlogs, runs, parked }: RemoveJobParts,
  tx: Transaction,
  job: Job,
): Promise<void> {
  const { replicationId, userName, vouched } = decodeJob(job);
  await ownership.release(tx, replicationId, { jobId: job.id, userName, vouched });
  await jobs.remove(tx, job);
  controls.remove(tx, job.id);
  backlogs.remove(tx, job.id);
  runs.remove(tx, job.id);
  await parked.remove(tx, job.id);
}
