/** Markers of deleted `_replicator` databases and rules, by uuid. */
import type { ReadTransaction } from "../../kv/index.ts";
import { databaseUuidOf } from "../jobs/job-data.ts";
import type { ReplicatorKeys } from "../replicator-keys.ts";

export async function isOfRemovedDatabase(
  tx: ReadTransaction,
  keys: ReplicatorKeys,
  jobId: string,
): Promise<boolean> {
  const uuid = databaseUuidOf(jobId);
  return uuid !== undefined && (await tx.get(keys.removedDatabase.key({ uuid }))) !== undefined;
}
