/** Removes a job and all its records, and halts its run (`halted-runs.ts`). */
import type { Job, Jobs } from "../../jobs/index.ts";
import type { Transaction } from "../../kv/index.ts";
import type { Chains } from "../chains/chains.ts";
import type { Backlogs } from "../job-lists/backlogs.ts";
import type { JobEventLog } from "../job-log/job-event-log.ts";
import type { JobRuns } from "../job-log/job-runs.ts";
import type { HaltedRuns } from "../job-watching/halted-runs.ts";
import type { ParkedJobs } from "../job-watching/parked-jobs.ts";
import type { JobControls } from "../jobs/job-controls.ts";
import { replicationIdsOf } from "../jobs/job-data.ts";
import { decodeJob } from "../jobs/job-data-record.ts";
import { jobName } from "../jobs/job-name.ts";
import type { ReplicationOwnership } from "./replication-ownership.ts";

export interface RemoveJobParts {
  readonly jobs: Jobs;
  readonly ownership: ReplicationOwnership;
  readonly controls: JobControls;
  readonly backlogs: Backlogs;
  readonly runs: JobRuns;
  readonly parked: ParkedJobs;
  readonly halted: HaltedRuns;
  readonly events: JobEventLog;
  readonly chains: Chains;
}

export async function removeJob(
  { jobs, ownership, controls, backlogs, runs, parked, halted, events, chains }: RemoveJobParts,
  tx: Transaction,
  job: Job,
  data = decodeJob(job),
): Promise<void> {
  const { userName, vouched, rule } = data;
  const replicationIds = replicationIdsOf(data);
  const status = await jobs.notes.get(tx, job);
  events.noteFormer(tx, job.id, { name: jobName(job.id, data), rule, status });
  await ownership.release(tx, replicationIds, { jobId: job.id, userName, vouched });
  const run = job.state === "running" ? await jobs.runOf(tx, job) : undefined;
  if (run !== undefined) halted.note(tx, { ...run, jobId: job.id }, replicationIds);
  await jobs.remove(tx, job);
  controls.remove(tx, job.id);
  backlogs.remove(tx, job.id);
  runs.remove(tx, job.id);
  await parked.remove(tx, job.id);
  await chains.end(tx, job.id, data);
}
