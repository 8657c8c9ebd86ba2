/** Reads what the store knows of a job, and carries out what `decide.ts` answers to a wish. */
import type { Job } from "../../jobs/index.ts";
import type { ReadTransaction } from "../../kv/index.ts";
import type { Replication } from "../request/replication.ts";
import { decideWish, type JobStep, type JobWish, phaseOf } from "./decide.ts";
import type { JobControls } from "./job-controls.ts";
import { decodeJob } from "./job-data-record.ts";

export async function stepFor(
  tx: ReadTransaction,
  controls: JobControls,
  job: Job,
  wish: JobWish,
): Promise<JobStep> {
  const { isPaused } = await controls.get(tx, job.id);
  return decideWish(wish, phaseOf(job, decodeJob(job)), isPaused);
}

/** The same for a job that is asked for once more, in a document or a body. */
export function stepWhenAskedAgain(
  tx: ReadTransaction,
  controls: JobControls,
  job: Job,
  replication: Replication,
): Promise<JobStep> {
  const isSame = sameReplication(decodeJob(job).replication, replication);
  return stepFor(tx, controls, job, isSame ? "same" : "other");
}

/** Equal in everything that matters for the run; credentials included, since a new password must be taken up. */
function sameReplication(left: Replication | undefined, right: Replication): boolean {
  return left !== undefined && JSON.stringify(left) === JSON.stringify(right);
}
