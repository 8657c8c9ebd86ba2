/** Puts a new job in the place of one that a document or a rule wants otherwise now. */
import type { Job } from "../../jobs/index.ts";
import type { Transaction } from "../../kv/index.ts";
import type { Replication } from "../request/replication.ts";
import { type AddJobParts, addJob, type JobOrigin } from "./add-job.ts";
import { decodeJob } from "./job-data-record.ts";
import { type RemoveJobParts, removeJob } from "./remove-job.ts";

/**
 * The pause of a job that has not ended stays: it is an operator's, who ends it. Where the former job was to begin again does not: the
 * sequence may be one of another source.
 */
export async function replaceJob(
  parts: AddJobParts & RemoveJobParts,
  tx: Transaction,
  existing: Job,
  origin: JobOrigin,
): Promise<void> {
  const { id, state } = existing;
  const control = await parts.controls.get(tx, id);
  const isPaused = control.isPaused && state !== "finished";
  const { hasCreatedTarget, replication } = decodeJob(existing);
  const isSameTarget = placeOf(replication) === placeOf(origin.replication);
  await removeJob(parts, tx, existing);
  const kept = isSameTarget ? { hasCreatedTarget } : {};
  await addJob(parts, tx, id, origin, { isPaused, kept });
  if (isPaused) parts.controls.keepPause(tx, id, control);
}

/** The target's server and database, whatever its credentials are. */
function placeOf(replication: Replication | undefined): string | undefined {
  const target = replication?.target;
  return target?.kind === "http" ? target.url : target?.database;
}
