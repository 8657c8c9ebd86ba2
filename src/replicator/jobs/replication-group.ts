/**
 * The group of a replication job (RFC 017): the `_replicator` database of its document, its rule, or the user of a transient job.
 * Groups share the slots.
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

/** Shares as configured, by name, as those of groups. */
export function sharesOfGroups(shares: ReadonlyMap<string, number>): Map<string, number> {
  return new Map([...shares].map(([name, count]) => [groupNamed(name), count]));
}

/** No name of a user contains a colon, and none of a database. */
function groupNamed(name: string): string {
  const isDatabase = name === "_replicator" || name.endsWith("/_replicator");
  return isDatabase || name.startsWith(RULE) ? name : userGroup(name);
}

const RULE = "rule:";

/** The group of the jobs of a rule. */
export function ruleGroup(rule: string): string {
  return `${RULE}${rule}`;
}

function userGroup(userName: string): string {
  return `user:${userName}`;
}
