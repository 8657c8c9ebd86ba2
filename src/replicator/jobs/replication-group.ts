/**
 * Fair-share group of a replication job (RFC 017): the `_replicator` database of its document, its
 * rule, or the user of a transient job.
 */
import type { ReplicationJobData } from "./job-data.ts";

export function groupOf({
  document,
  rule,
  userName,
}: Pick<ReplicationJobData, "document" | "rule" | "userName">): string {
  if (document !== undefined) return document.database;
  return rule === undefined ? userGroup(userName ?? "") : ruleGroup(rule);
}

/** Converts the names in `[replicator.shares]` to names of groups. */
export function sharesOfGroups(shares: ReadonlyMap<string, number>): Map<string, number> {
  return new Map([...shares].map(([name, count]) => [groupNamed(name), count]));
}

/**
 * Converts a name in `[replicator.shares]` to the name of a group. Names of users and databases
 * contain no colon, so they cannot be mistaken for names of rule groups.
 */
function groupNamed(name: string): string {
  const isDatabase = name === "_replicator" || name.endsWith("/_replicator");
  return isDatabase || name.startsWith(RULE) ? name : userGroup(name);
}

const RULE = "rule:";

export function ruleGroup(rule: string): string {
  return `${RULE}${rule}`;
}

function userGroup(userName: string): string {
  return `user:${userName}`;
}
