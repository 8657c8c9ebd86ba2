/** The jobs of a rule, and the job that follows it. */
import { type Random, randomHex } from "../../base/index.ts";
import { persistentJobId } from "./job-data.ts";

/** Job type of the followers of rules whose source is another server. Their id is the rule's name. */
export const RULE_TYPE = "rule";

/**
 * Job type of the followers of rules whose source is our own store. They open no connection, so
 * frontends run them as well.
 */
export const LOCAL_RULE_TYPE = "local-rule";

export const RULE_TYPES = [RULE_TYPE, LOCAL_RULE_TYPE] as const;

/** Before the random part of a rule's uuid: no database has one like it. */
const UUID_PREFIX = "rule-";

/** The uuid of the rule that made the job; undefined for any other. */
export function ruleUuidOf(jobId: string): string | undefined {
  return jobId.startsWith(UUID_PREFIX) ? jobId.slice(0, jobId.indexOf("|")) : undefined;
}

export function newRuleUuid(random: Random): string {
  return UUID_PREFIX + randomHex(random);
}

/** Begins with the rule's uuid, so that the lists of jobs have those of a rule side by side, like those of a `_replicator` database. */
export function ruleJobId(uuid: string, database: string): string {
  return persistentJobId(uuid, database);
}
