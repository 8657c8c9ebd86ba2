/**
 * Checks whether a job on the new server will find the checkpoints that CouchDB wrote for it.
 * Checkpoints are stored under the replication id. The id computed here is therefore compared with
 * the id that CouchDB shows.
 */
import type { Digests } from "../../base/index.ts";
import { type Replication, replicationId } from "../../replicator/index.ts";

/**
 * Result of comparing the replication ids:
 *
 *   same      equal
 *   older     CouchDB's id contains a token that ours omits; a job here also looks for checkpoints
 *             under CouchDB's id
 *   uuid      the ids would be equal if both servers had the same `[couchdb] uuid`
 *   other     different: no checkpoint will be found
 *   unknown   CouchDB shows no id, because the job has ended or could not start
 */
export type IdMatch = "same" | "older" | "uuid" | "other" | "unknown";

export interface Uuids {
  readonly here: string;
  readonly there: string;
}

/**
 * Compares replication ids. `shown` is the id shown by CouchDB, and `filterCode` the source code of
 * a user filter.
 */
export function matchIds(
  digests: Digests,
  replication: Replication,
  { shown, filterCode }: { readonly shown: string | null; readonly filterCode?: string },
  uuids: Uuids,
): IdMatch {
  if (shown === null) return "unknown";
  const idsOf = (serverUuid: string) =>
    replicationId(
      // `serverUrl` is unused, because the endpoints of a moved job are URLs. `hostName` and `port`
      // are unknown. They affect only ids of the oldest formats, which therefore never match.
      { digests, serverUuid, hostName: "", port: 0, serverUrl: "" },
      replication,
      filterCode,
    );
  const base = shown.replace(/\+.*$/s, "");
  const here = idsOf(uuids.here);
  if (here.id === shown) return "same";
  if (here.olderBaseIds.includes(base) || here.baseId === base) return "older";
  const there = idsOf(uuids.there);
  return there.baseId === base || there.olderBaseIds.includes(base) ? "uuid" : "other";
}
