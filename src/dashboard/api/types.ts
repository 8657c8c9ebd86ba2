/** What the node answers, as far as the dashboard reads it: docs/api/jobs.md. */
import type { BudgetRow } from "./budget.ts";

export type JobState = "running" | "pending" | "crashing" | "completed" | "failed";

export const JOB_STATES: readonly JobState[] = [
  "running",
  "pending",
  "crashing",
  "completed",
  "failed",
];

export const FAILURE_CLASSES = [
  "unreachable",
  "dns",
  "tls",
  "timeout",
  "unauthorized",
  "forbidden",
  "not_found",
  "rate_limited",
  "storage_full",
  "server_error",
  "refused_document",
  "filter",
  "egress",
  "duplicate",
  "invalid",
  "other",
] as const;

export interface LastFailure {
  readonly class: string;
  readonly error: string;
  readonly reason: string;
  readonly phase: string | null;
  readonly side: "source" | "target" | null;
  readonly host: string | null;
  readonly time: string;
  readonly tries: number;
  readonly next_try: string | null;
}

export interface ControlEvent {
  readonly action: string;
  readonly user: string | null;
  readonly timestamp: string;
  /** The reason that who decided gave; null: none. */
  readonly why: string | null;
  readonly since?: unknown;
}

export interface HistoryEvent {
  readonly type: string;
  readonly timestamp: string;
  readonly reason?: string;
}

/** A row of `GET /_tandem/jobs`. Times are ISO 8601. */
export interface Job {
  /** The replication id. */
  readonly id: string;
  readonly database: string | null;
  readonly doc_id: string | null;
  readonly source: string | null;
  readonly target: string | null;
  readonly user: string | null;
  readonly node: string | null;
  readonly state: JobState;
  readonly info: Readonly<Record<string, unknown>>;
  readonly history: readonly HistoryEvent[];
  readonly start_time: string;
  readonly error_count: number;
  readonly failing: boolean;
  readonly failing_since: string | null;
  readonly last_failure: LastFailure | null;
  readonly left_behind: number;
  readonly stalled: boolean;
  readonly parked: boolean;
  /** In seconds; null: nobody knows. */
  readonly lag_sec: number | null;
  readonly behind_since: string | null;
  /** Changes that have not arrived; null: nobody knows. */
  readonly pending: number | null;
  readonly docs_per_sec: number;
  readonly bytes_per_sec: number;
  readonly held_back_by: string | null;
  readonly next_try: string | null;
  readonly paused: boolean;
  /** The rule that made it; null, or absent: none. */
  readonly rule?: string | null;
  readonly control: readonly ControlEvent[];
}

export interface JobPage {
  /** Null: more would have to be looked at than a page may. */
  readonly total_rows: number | null;
  readonly bookmark: string | null;
  readonly jobs: readonly Job[];
}

/** A run that has ended. Figures of a lost run are null. */
export interface JobRun {
  readonly start: string;
  readonly end: string;
  readonly cause: string;
  readonly reason: string | null;
  readonly docs_read: number | null;
  readonly docs_written: number | null;
  readonly doc_write_failures: number | null;
  readonly bytes: number | null;
  /** How far behind the job was when the run ended, in seconds; null: nobody knew. */
  readonly lag_sec: number | null;
}

export interface DocumentFailure {
  readonly id: string;
  readonly rev: string;
  readonly phase: string;
  readonly status: number | null;
  readonly reason: string;
  readonly first: string;
  readonly last: string;
  readonly tries: number;
}

export interface FailureCount {
  readonly phase: string;
  readonly status: number | null;
  readonly error: string;
  readonly count: number;
}

/** Jobs whose last failures have the same class, at the same side and host. */
export interface FailingGroup {
  readonly class: string;
  /** Null for a document that is no replication. */
  readonly side: "source" | "target" | null;
  /** Null for a database of the node's own. */
  readonly host: string | null;
  readonly count: number;
  /** Of the job that fails longest, like the next three. */
  readonly since: string;
  readonly error: string;
  readonly reason: string;
  /** The name of that job. */
  readonly example: string;
  /** Null: none is tried again, or all run. */
  readonly next_try: string | null;
}

export interface FailingPage {
  /** The number of groups. */
  readonly total_rows: number;
  /** The number of jobs that fail. */
  readonly jobs: number;
  readonly groups: readonly FailingGroup[];
}

/** A process that runs jobs: docs/api/nodes.md. What it reports itself is null before its first report. */
export interface NodeRow {
  readonly id: string | null;
  /** Of its node. */
  readonly name: string;
  readonly pid: string | null;
  readonly state: "running" | "draining" | "dead";
  /** It is draining, has heard of it, and holds no jobs. */
  readonly drained: boolean;
  readonly jobs: number;
  /** The jobs that it runs at most. */
  readonly slots: number | null;
  readonly memory_bytes: number | null;
  readonly event_loop_delay_ms: number | null;
  readonly lease_age_sec: number | null;
  readonly version: string | null;
  readonly started: string | null;
  readonly last_report: string | null;
}

/** A server that jobs name. */
export interface EndpointRow {
  readonly host: string;
  readonly source_jobs: number;
  readonly target_jobs: number;
  /** The number of jobs by the class of their last failure, which was there. */
  readonly failing: Readonly<Record<string, number>>;
  /** Null: jobs reach the server. */
  readonly outage: { readonly confirmed: boolean; readonly probed: string } | null;
  /** How long a request waits because the server answered 429. */
  readonly limiter_ms: number;
  /** Of the last one to two minutes. */
  readonly requests: number;
  readonly latency_ms: number | null;
  /** Of the host, and of accounts there. */
  readonly budgets: readonly BudgetRow[];
}

/** Jobs that share the slots with other groups. */
export interface GroupRow {
  /** A `_replicator` database, or `user:NAME`. */
  readonly name: string;
  readonly shares: number;
  readonly usage_sec: number;
  /** The usage for each share; the lowest is next. */
  readonly standing: number;
  readonly jobs: { readonly running: number; readonly pending: number; readonly ended: number };
  readonly longest_wait_sec: number;
}

/** An event of the log: docs/api/jobs.md#events. */
export interface JobEvent {
  /** In the log of events. */
  readonly place: string;
  readonly time: string;
  /** The replication id. */
  readonly id: string;
  /** By which the job was shown before, where that was another one. */
  readonly former_id?: string;
  readonly changes: readonly string[];
  /** Whether the filters find the job now. */
  readonly matches: boolean;
  /** Null: the job is gone. */
  readonly job: Job | null;
}

export interface PastPage {
  /** The newest first. */
  readonly events: readonly JobEvent[];
  /** Where the next page begins; null: the log has no older events. */
  readonly before: string | null;
}

/** What the runs of all nodes did in a minute; null where no node ran jobs. */
export interface RateMinute {
  readonly time: string;
  /** So much of it is over. */
  readonly seconds: number;
  readonly starts: number | null;
  readonly failures: number | null;
  readonly docs_written: number | null;
}

/** A setting of a node: docs/api/nodes.md. */
export interface SettingRow {
  readonly section: string;
  readonly key: string;
  /** Null: nobody has set it. */
  readonly value: string | null;
  /** Null: it has none. */
  readonly default: string | null;
  /** Whether the node has a use for it. */
  readonly known: boolean;
}

export interface NodeSettings {
  /** The name of the node. */
  readonly node: string;
  readonly settings: readonly SettingRow[];
}

/** One side of a replication that is checked. `new`: it is not there, and will be made. */
export interface CheckedEndpoint {
  readonly state: "open" | "new" | "failed";
  /** Of a source; null: nobody knows. */
  readonly changes: number | null;
  readonly class: string | null;
  readonly error: string | null;
  readonly reason: string | null;
}

/** What a replication would meet: docs/api/replication.md#checking-a-replication. */
export interface CheckedReplication {
  /** Why the document would be refused; null: it would not. */
  readonly reason: string | null;
  /** What is wrong with its members. */
  readonly faults: readonly string[];
  readonly name_taken: boolean;
  /** Null: not looked at. */
  readonly source: CheckedEndpoint | null;
  readonly target: CheckedEndpoint | null;
  /** Another job that does the same. */
  readonly job: {
    readonly id: string;
    readonly database: string | null;
    readonly doc_id: string | null;
    readonly state: JobState;
  } | null;
}

/** What is known of a rule and its jobs: docs/api/rules.md. */
export interface RuleStatus {
  /** Who put it last; null: an administrator without a name. */
  readonly owner: string | null;
  readonly changed: string | null;
  /** Null: they were not listed yet. */
  readonly databases: number | null;
  readonly jobs: number;
  readonly states: Readonly<Record<JobState, number>>;
  readonly failing: number;
  readonly parked: number;
  readonly left_behind: number;
  /** Of the job that is furthest behind, in seconds. */
  readonly lag_sec: number;
  readonly listed: string | null;
  /** How new databases are noticed: `feed`, `lists`; null: not yet. */
  readonly followed_by: string | null;
  readonly last_error: { readonly error: string; readonly reason: string } | null;
  /** Databases that match and cannot be copied; `faults` has the first of them. */
  readonly cannot_copy: number;
  readonly faults: readonly { readonly database: string; readonly reason: string }[];
}

/** Beside these it has the members that it was put with. Without them it was removed, and its jobs are being cancelled. */
export interface Rule {
  readonly name: string;
  readonly status: RuleStatus;
  readonly [member: string]: unknown;
}

export interface RulesPage {
  readonly total_rows: number;
  /** Null: there is no next page. */
  readonly bookmark: string | null;
  readonly rules: readonly Rule[];
}

/** Databases by what would become of them, with the first of their names. */
export interface PlannedDatabases {
  readonly count: number;
  readonly first: readonly string[];
}

/** What a change of a rule would do. */
export interface RulePlan {
  readonly databases: PlannedDatabases;
  readonly create: PlannedDatabases;
  readonly replace: PlannedDatabases;
  readonly cancel: PlannedDatabases;
  readonly cannot_copy: PlannedDatabases;
  /** Absent if the rule copies no security objects. */
  readonly overwrite_security?: PlannedDatabases;
}

/** What a list of jobs is asked for: the query of its URL, in the page and in the API alike. */
export type Query = Readonly<Record<string, string>>;

/** The name under which the API finds a job. */
export function jobName({
  id,
  database,
  doc_id: documentId,
}: Pick<Job, "id" | "database" | "doc_id">): string {
  return database === null || documentId === null ? id : `${database}/${documentId}`;
}
