/** What the node answers, as far as the dashboard reads it: docs/api/jobs.md. */

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

/** Jobs that fail in the same way at the same host. */
export interface FailingGroup {
  readonly class: string;
  readonly side: "source" | "target" | null;
  readonly host: string | null;
  readonly count: number;
  readonly since: string;
  readonly next_try: string | null;
  readonly error: string;
  readonly reason: string;
}

/** A process that runs jobs. */
export interface NodeRow {
  readonly node: string;
  readonly pid: string | null;
  readonly jobs: number | null;
  readonly since: string | null;
  readonly lastSign: string | null;
}

/** What a list of jobs is asked for: the query of its URL, in the page and in the API alike. */
export type Query = Readonly<Record<string, string>>;

/** The name under which the API finds a job. */
export function jobName({ id, database, doc_id: documentId }: Job): string {
  return database === null || documentId === null ? id : `${database}/${documentId}`;
}
