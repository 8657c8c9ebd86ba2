/** Changes the tags of a job without affecting its run. */
import type { Job, Jobs } from "../../jobs/index.ts";
import type { Transaction } from "../../kv/index.ts";
import { REPLICATION_JOB_TYPE } from "../jobs/job-data.ts";
import { decodeJob, encodeRequest } from "../jobs/job-data-record.ts";
import { areEqual } from "../jobs/job-input.ts";
import type { Replication } from "../request/replication.ts";

/** Gives an existing job the tags of the replication. Writes nothing if they are unchanged. */
export async function retagJob(
  { jobs }: { readonly jobs: Jobs },
  tx: Transaction,
  existing: Job,
  { tags }: Pick<Replication, "tags">,
): Promise<void> {
  const data = decodeJob(existing);
  const { replication } = data;
  if (replication === undefined || areEqual(replication.tags, tags)) return;
  const { tags: _, ...others } = replication;
  const retagged = { ...others, ...(tags === undefined ? {} : { tags }) };
  const request = encodeRequest({ ...data, replication: retagged, refusal: undefined });
  await jobs.amendRequest(tx, { type: REPLICATION_JOB_TYPE, id: existing.id }, request);
}
