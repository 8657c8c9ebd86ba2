/**
 * Reads the state of a job, and determines the reaction to a request by the tables of `decide.ts`.
 */
import { type Authority, isSameAuthority } from "../../databases/index.ts";
import type { Job } from "../../jobs/index.ts";
import type { ReadTransaction } from "../../kv/index.ts";
import { fixedMembers, type Replication } from "../request/replication.ts";
import { decideInput, type JobInput, type JobStep, phaseOf } from "./decide.ts";
import type { JobControls } from "./job-controls.ts";
import { hasEnded, type ReplicationJobData } from "./job-data.ts";
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

/**
 * Determines the reaction to a repeated request. Ignores tags and placement, which `amendJob`
 * changes.
 */
export function stepWhenAskedAgain(
  tx: ReadTransaction,
  controls: JobControls,
  job: Job,
  asked: AskedAgain,
): Promise<JobStep> {
  return stepFor(tx, controls, job, isSame(decodeJob(job), asked) ? "same" : "other");
}

/** Whether a repeated request only changes the tags or placement of a job that has not ended. */
export function isAmendment(job: Job, asked: AskedAgain): boolean {
  const before = decodeJob(job);
  if (job.request === undefined || hasEnded(before.state) || !isSame(before, asked)) return false;
  return !areEqual(before.replication, asked.replication);
}

function isSame(before: ReplicationJobData, asked: AskedAgain): boolean {
  const fixed = before.replication && fixedMembers(before.replication);
  const isUnchanged = areEqual(fixed, fixedMembers(asked.replication));
  return isUnchanged && isSameAuthority(before, asked);
}

/**
 * Whether two values have the same JSON text. The comparison includes credentials, because the job
 * must use changed credentials.
 */
export function areEqual<T extends object>(left: T | undefined, right: T | undefined): boolean {
  return JSON.stringify(left) === JSON.stringify(right);
}
