/** Reads the state of a job, and determines with `decide.ts` how to react to a request. */
import { type Authority, isSameAuthority } from "../../databases/index.ts";
import type { Job } from "../../jobs/index.ts";
import type { ReadTransaction } from "../../kv/index.ts";
import type { Replication } from "../request/replication.ts";
import { decideInput, type JobInput, type JobStep, phaseOf } from "./decide.ts";
import type { JobControls } from "./job-controls.ts";
import { decodeJob } from "./job-data-record.ts";

export async function stepFor(
  tx: ReadTransaction,
  controls: JobControls,
  job: Job,
  input: JobInput,
): Promise<JobStep> {
  const { isPaused } = await controls.get(tx, job.id);
  return decideInput(input, phaseOf(job, decodeJob(job)), isPaused);
}

/** A replication that is requested again, and the authority of the new request. */
export type AskedAgain = Authority & { readonly replication: Replication };

/** Determines the reaction to a repeated request. */
export function stepWhenAskedAgain(
  tx: ReadTransaction,
  controls: JobControls,
  job: Job,
  asked: AskedAgain,
): Promise<JobStep> {
  const before = decodeJob(job);
  const isSame = isEqual(before.replication, asked.replication) && isSameAuthority(before, asked);
  return stepFor(tx, controls, job, isSame ? "same" : "other");
}

/**
 * Whether two values are equal. Compares everything that affects the run, including credentials,
 * because the job must use changed credentials.
 */
function isEqual<T extends object>(left: T | undefined, right: T | undefined): boolean {
  return JSON.stringify(left) === JSON.stringify(right);
}
