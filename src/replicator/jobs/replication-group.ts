/**
 * The group of a replication job (RFC 017): the `_replicator` database of its document, or the user of a transient job.
 * Groups share the slots.
 */
import type { ReplicationJobData } from "./job-data.ts";

export function groupOf({
  document,
  userName,
}: Pick<ReplicationJobData, "document" | "userName">): string {
  return document === undefined ? userGroup(userName ?? "") : document.database;
}

/** Shares as configured, by name, as those of groups. */
export function sharesOfGroups(shares: ReadonlyMap<string, number>): Map<string, number> {
  return new Map([...shares].map(([name, count]) => [groupNamed(name), count]));
}

function groupNamed(name: string): string {
  const isDatabase = name === "_replicator" || name.endsWith("/_replicator");
  return isDatabase ? name : userGroup(name);
}

/** No name of a database contains a colon. */
function userGroup(userName: string): string {
  return `user:${userName}`;
}
