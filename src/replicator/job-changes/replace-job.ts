/** Replaces a job whose document or rule has changed. */
import type { Job } from "../../jobs/index.ts";
import type { Transaction } from "../../kv/index.ts";
import { decodeJob } from "../jobs/job-data-record.ts";
import type { Replication } from "../request/replication.ts";
import { type AddJobParts, addJob, type JobOrigin } from "./add-job.ts";
import { type RemoveJobParts, removeJob } from "./remove-job.ts";

/**
 * Replaces a job whose request has changed. Keeps an operator's pause, but discards a restart
 * position, since the source might be different.
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

/** Returns the target's server and database, without credentials. */
function placeOf(replication: Replication | undefined): string | undefined {
  const target = replication?.target;
  return target?.kind === "http" ? target.url : target?.database;
}
