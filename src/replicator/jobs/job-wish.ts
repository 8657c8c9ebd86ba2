/** Reads what the store knows of a job, and carries out what `decide.ts` answers to a wish. */
import type { Job } from "../../jobs/index.ts";
import type { ReadTransaction } from "../../kv/index.ts";
import type { JobOwner } from "../request/job-owner.ts";
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

/** What is asked for once more, in a document or a body, and who vouches for whoever asks. */
export type AskedAgain = Pick<JobOwner, "vouched"> & { readonly replication: Replication };

/** The same for a job that is asked for once more. */
export function stepWhenAskedAgain(
  tx: ReadTransaction,
  controls: JobControls,
  job: Job,
  asked: AskedAgain,
): Promise<JobStep> {
  const { replication, vouched } = decodeJob(job);
  const isSame = isEqual(replication, asked.replication) && isEqual(vouched, asked.vouched);
  return stepFor(tx, controls, job, isSame ? "same" : "other");
}

/** Equal in everything that matters for the run; credentials and roles included, since new ones must be taken up. */
function isEqual<T extends object>(left: T | undefined, right: T | undefined): boolean {
  return JSON.stringify(left) === JSON.stringify(right);
}
