/** Rules, and checks of replications (`docs/api/rules.md`, `docs/api/replication.md`). */
import { Type } from "@sinclair/typebox";
import {
  count,
  described,
  exactly,
  flag,
  json,
  listOf,
  nullable,
  number,
  oneOf,
  optional,
  recordOf,
  type Shape,
  text,
  time,
} from "./schema.ts";
import { JOB_STATES, type JobState } from "./words.ts";

const jobCounts = Type.Unsafe<Record<JobState, number>>(
  exactly(Object.fromEntries(JOB_STATES.map((state) => [state, count]))),
);

/** Summary of a rule and its jobs. */
export const RuleStatus = exactly({
  owner: nullable(text, {
    description: "author of the rule; null for an anonymous administrator",
  }),
  changed: nullable(time),
  databases: nullable(count, {
    description: "number of matching databases; null before the first listing",
  }),
  jobs: count,
  states: jobCounts,
  failing: count,
  parked: count,
  left_behind: count,
  lag_sec: described(number, "lag of the job that is furthest behind"),
  listed: nullable(time),
  followed_by: nullable(text, {
    description: "how new databases are noticed: by the feed or by listing",
  }),
  last_error: nullable(exactly({ error: text, reason: text })),
  cannot_copy: described(count, "matching databases that cannot be copied"),
  faults: listOf(exactly({ database: text, reason: text })),
});
export type RuleStatus = Shape<typeof RuleStatus>;

const endpoint = Type.Union([text, recordOf(json)]);

/** A rule as clients write it. */
export const RuleDefinition = exactly({
  name: optional(described(text, "the name in the path")),
  status: optional(described(json, "ignored")),
  source: described(endpoint, "URL of the server, an object with `url` and `auth`, or `local`"),
  target: described(endpoint, "URL of the targets, in which `{db}` stands for the database"),
  databases: described(listOf(text), "patterns of the databases to copy"),
  except: optional(described(listOf(text), "patterns of databases that are not copied")),
  security: optional(json),
  design_documents: optional(flag),
  create_target: optional(flag),
  create_target_params: optional(recordOf(json)),
  options: optional(described(recordOf(json), "options of the replications")),
  tags: optional(described(recordOf(text), "tags of the jobs")),
  run_on: optional(described(listOf(text), "labels that a node must have to run the jobs")),
  after: optional(
    Type.Union([text, listOf(text)], {
      description:
        "names of jobs that each job waits for; {db} stands for the waiting job's database",
    }),
  ),
  pair: optional(described(flag, "whether the jobs replicate in both directions")),
  concurrency: optional(described(count, "maximum number of jobs running at a time")),
  delete: optional(oneOf(["keep", "stop"])),
  proxy: optional(text),
  source_proxy: optional(text),
  target_proxy: optional(text),
});

/**
 * A rule with its definition. If the definition is missing, the rule was removed and its jobs are
 * being cancelled.
 */
export const Rule = Type.Intersect([
  Type.Object({ name: text, status: RuleStatus }),
  recordOf(json),
]);
export interface Rule {
  readonly name: string;
  readonly status: RuleStatus;
  readonly [member: string]: unknown;
}

export const RulesPage = exactly({
  total_rows: count,
  bookmark: nullable(text),
  rules: listOf(Rule),
});
export interface RulesPage {
  readonly total_rows: number;
  readonly bookmark: string | null;
  readonly rules: readonly Rule[];
}

/** Number of databases, and some of their names. */
export const PlannedDatabases = exactly({ count, first: listOf(text) });
export type PlannedDatabases = Shape<typeof PlannedDatabases>;

/** Effects that a change of a rule would have, computed by a dry run. */
export const RulePlan = exactly({
  ok: flag,
  dry_run: flag,
  databases: PlannedDatabases,
  create: PlannedDatabases,
  replace: PlannedDatabases,
  cancel: PlannedDatabases,
  cannot_copy: PlannedDatabases,
  overwrite_security: optional(PlannedDatabases),
});
export type RulePlan = Shape<typeof RulePlan>;

/**
 * Result of checking one side of a replication. State `new`: the target does not exist and will be
 * created.
 */
export const CheckedEndpoint = exactly({
  state: oneOf(["open", "new", "failed"]),
  changes: nullable(count, { description: "number of changes in the source; null if unknown" }),
  class: nullable(text),
  error: nullable(text),
  reason: nullable(text),
});
export type CheckedEndpoint = Shape<typeof CheckedEndpoint>;

/** Result of the dry run of a replication document. */
export const CheckedReplication = exactly({
  ok: flag,
  error: nullable(text),
  reason: nullable(text, { description: "reason why the document would be rejected" }),
  faults: listOf(text),
  name_taken: flag,
  source: nullable(CheckedEndpoint),
  target: nullable(CheckedEndpoint),
  job: nullable(
    exactly({
      id: text,
      name: text,
      database: nullable(text),
      doc_id: nullable(text),
      state: oneOf(JOB_STATES),
    }),
    { description: "another job of the same replication" },
  ),
});
export type CheckedReplication = Shape<typeof CheckedReplication>;
