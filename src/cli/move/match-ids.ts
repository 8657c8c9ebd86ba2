/**
 * Whether a job here finds the checkpoints that it left with CouchDB. They are named by the
 * replication id, so the id of our job is compared with the one that CouchDB shows.
 */
import type { Digests } from "../../base/index.ts";
import { type Replication, replicationId } from "../../replicator/index.ts";

/**
 * Result of comparing the replication ids:
 *
 *   same     equal
 *   older    CouchDB's contains a token that ours omits; a job here also tries that id
 *   uuid     they would be equal if both servers had the same `[couchdb] uuid`
 *   other    different, so that no checkpoint will be found
 *   unknown  CouchDB shows no id, because the job has ended or could not start
 */
export type IdMatch = "same" | "older" | "uuid" | "other" | "unknown";

export interface Uuids {
  readonly here: string;
  readonly there: string;
}

/** `shown` is the id in CouchDB, and `filterCode` the source of a user filter. */
export function matchIds(
  digests: Digests,
  replication: Replication,
  { shown, filterCode }: { readonly shown: string | null; readonly filterCode?: string },
  uuids: Uuids,
): IdMatch {
  if (shown === null) return "unknown";
  const idsOf = (serverUuid: string) =>
    replicationId(
      // A job that moves names servers, and has no ids of the versions that contain a host and
      // port.
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
