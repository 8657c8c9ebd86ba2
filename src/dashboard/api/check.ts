/** Check of a replication before it is created (docs/api/replication.md). */
import type { CheckedReplication } from "../../contract/index.ts";
import type { ReplicationDocument } from "./one-job.ts";
import { request, withQuery } from "./request.ts";

/** Checks a document without writing anything. Throws a RequestError if the request fails. */
export function checkReplication(
  database: string,
  document: ReplicationDocument,
  signal: AbortSignal,
): Promise<CheckedReplication> {
  const path = withQuery("_tandem/replications/_check", { database });
  return request("POST", path, { body: document, signal });
}
