/**
 * Names of jobs for operators: `database/document` for a persistent job, `rule/database` for a job
 * of a rule, the replication id for a transient one. Pure.
 */
import type { ReplicationJobData } from "./job-data.ts";
import { ruleDatabaseOf } from "./rule-jobs.ts";

/**
 * Returns the name of a job. The name of a transient job without a replication id is its job id.
 */
export function jobName(
  jobId: string,
  {
    document,
    rule,
    replicationId,
  }: Pick<ReplicationJobData, "document" | "rule" | "replicationId">,
): string {
  if (document !== undefined) return `${document.database}/${document.id}`;
  if (rule !== undefined) return `${rule}/${ruleDatabaseOf(jobId)}`;
  return replicationId ?? jobId;
}

/** A name divided into the possible name of a `_replicator` database or rule, and the rest. */
export interface NamePlace {
  readonly kind: "database" | "rule";
  readonly name: string;
  readonly rest: string;
}

/**
 * Length of the beginning of a job's name that is searched for a database name. Longer than any
 * database name.
 */
const DATABASE_LENGTH_MAX = 256;

/**
 * Returns all possible divisions of a name at a slash. Database names can contain slashes, rule
 * names cannot.
 */
export function namePlaces(name: string): readonly NamePlace[] {
  const slash = name.indexOf("/");
  if (slash < 0) return [];
  const segments = name.slice(0, DATABASE_LENGTH_MAX).split("/");
  const places = segments.slice(0, -1).flatMap((segment, index): readonly NamePlace[] => {
    if (segment !== "_replicator") return [];
    const database = segments.slice(0, index + 1).join("/");
    return [{ kind: "database", name: database, rest: name.slice(database.length + 1) }];
  });
  return [...places, { kind: "rule", name: name.slice(0, slash), rest: name.slice(slash + 1) }];
}
