/** Ids of a rule's jobs, and of the follower job that keeps these jobs up to date. */
import { type Random, randomHex } from "../../base/index.ts";
import { persistentJobId } from "./job-data.ts";

/** Queue type of the followers of rules whose source is another server. Job ids are rule names. */
export const RULE_TYPE = "rule";

/**
 * Queue type of the followers of rules whose source is our own store. These followers open no
 * connection, so frontends also run them.
 */
export const LOCAL_RULE_TYPE = "local-rule";

export const RULE_TYPES = [RULE_TYPE, LOCAL_RULE_TYPE] as const;

/** Prefix of the uuids of rules. The uuids of databases do not begin with it. */
const UUID_PREFIX = "rule-";

/** Returns the uuid of the rule that created the job, if any. */
export function ruleUuidOf(jobId: string): string | undefined {
  return jobId.startsWith(UUID_PREFIX) ? jobId.slice(0, jobId.indexOf("|")) : undefined;
}

export function newRuleUuid(random: Random): string {
  return UUID_PREFIX + randomHex(random);
}

export function ruleDatabaseOf(jobId: string): string {
  return jobId.slice(jobId.indexOf("|") + 1);
}

/**
 * Returns the id of a rule's job. It begins with the rule's uuid, so that lists show the jobs of a
 * rule together.
 */
export function ruleJobId(uuid: string, database: string): string {
  return persistentJobId(uuid, database);
}
