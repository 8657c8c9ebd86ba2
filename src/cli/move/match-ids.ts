/**
 * Whether a job here finds the checkpoints that it left at CouchDB. They are named by the replication id, so the id that our job
 * will have is compared with the one that CouchDB shows.
 */
import type { Digests } from "../../base/index.ts";
import { type Replication, replicationId } from "../../replicator/index.ts";

/**
 *   same     the ids are equal
 *   older    CouchDB's has a token in it, which ours has not; a job here looks there, too
 *   uuid     they would be equal if both servers had the same `[couchdb] uuid`
 *   other    they differ, and no checkpoint will be found
 *   unknown  CouchDB shows no id: the job has ended, or could not begin
 */
export type IdMatch = "same" | "older" | "uuid" | "other" | "unknown";

export interface Uuids {
  readonly here: string;
  readonly there: string;
}

/** `shown` is the id at CouchDB, and `filterCode` that of a user filter. */
export function matchIds(
  digests: Digests,
  replication: Replication,
  { shown, filterCode }: { readonly shown: string | null; readonly filterCode?: string },
  uuids: Uuids,
): IdMatch {
  if (shown === null) return "unknown";
  const idsOf = (serverUuid: string) =>
    replicationId(
      // A job that moves names servers, and has no ids of the versions that contain a host and a port.
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
