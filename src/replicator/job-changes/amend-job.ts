/** Changes the tags and the placement of a job without replacing it. */
import { currentSec, type Runtime } from "../../base/index.ts";
import { type Job, type Jobs, NO_LABELS } from "../../jobs/index.ts";
import type { Transaction } from "../../kv/index.ts";
import type { ParkedJobs } from "../job-watching/parked-jobs.ts";
import type { JobControls } from "../jobs/job-controls.ts";
import { REPLICATION_JOB_TYPE, woken } from "../jobs/job-data.ts";
import { decodeJob, encodeProgress, encodeRequest } from "../jobs/job-data-record.ts";
import { areEqual, stepFor } from "../jobs/job-input.ts";
import { fixedMembers, type Replication } from "../request/replication.ts";

export interface AmendJobParts {
  readonly runtime: Pick<Runtime, "clock">;
  readonly jobs: Jobs;
  readonly controls: JobControls;
  readonly parked: ParkedJobs;
}

/**
 * Sets the tags and `run_on` of an existing job to those of `replication`. Writes nothing if they
 * are unchanged. A run on a node that lacks the new labels ends with a checkpoint, and another node
 * continues.
 */
export async function amendJob(
  { runtime, jobs, controls, parked }: AmendJobParts,
  tx: Transaction,
  existing: Job,
  { tags, runOn }: Pick<Replication, "tags" | "runOn">,
): Promise<void> {
  const data = decodeJob(existing);
  const { replication } = data;
  if (replication === undefined) return;
  const isMoved = !areEqual(replication.runOn, runOn);
  if (!isMoved && areEqual(replication.tags, tags)) return;
  const amended = {
    ...fixedMembers(replication),
    ...(tags === undefined ? {} : { tags }),
    ...(runOn === undefined ? {} : { runOn }),
  };
  const name = { type: REPLICATION_JOB_TYPE, id: existing.id };
  const request = encodeRequest({ ...data, replication: amended, refusal: undefined });
  await jobs.amendRequest(tx, name, request);
  if (!isMoved) return;
  await jobs.setLabels(tx, name, runOn ?? NO_LABELS);
  if (data.state !== "parked" || (await stepFor(tx, controls, existing, "changed")) !== "again") {
    return;
  }
  // A parked job must be watched by a node that is allowed to run it. Therefore, the job becomes
  // due now, runs once on such a node, and parks again.
  const nowSec = currentSec(runtime.clock);
  await parked.remove(tx, existing.id);
  await jobs.resubmit(tx, name, nowSec, encodeProgress(woken(data)));
}
