/**
 * Whom a replication job is run for (RFC 017): the `_replicator` database that its document is in, or the user that asked for a
 * transient one. Slots are shared between these groups.
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
