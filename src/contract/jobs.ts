/** Jobs, their runs, failures and events (`docs/api/jobs.md`). */
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
import { JOB_STATES } from "./words.ts";

const side = nullable(oneOf(["source", "target"]));

export const LastFailure = exactly({
  class: text,
  error: text,
  reason: text,
  phase: nullable(text),
  side,
  host: nullable(text),
  time,
  tries: count,
  next_try: nullable(time, {
    description:
      "time of the next attempt; null while the job runs, and if no attempt is scheduled",
  }),
});
export type LastFailure = Shape<typeof LastFailure>;

/** An account whose login a server rejected. The next login to the account has to wait. */
const LoginGate = exactly({
  host: described(text, "scheme, host and port of the server"),
  username: described(text, "name of the account; empty for a key"),
  status: oneOf(["refused", "locked"], {
    description: "whether the server rejected a password, or has temporarily locked the account",
  }),
  reason: described(text, "status and message of the last rejection; empty if unknown"),
  since: described(time, "time of the first rejection"),
  next_attempt: time,
});
export type LoginGate = Shape<typeof LoginGate>;

export const GatedLogin = exactly({
  ...LoginGate.properties,
  jobs: nullable(count, {
    description: "number of jobs that wait; null if counting would take too long",
  }),
});
export type GatedLogin = Shape<typeof GatedLogin>;

export const GatedLoginPage = exactly({
  total_rows: count,
  logins: described(listOf(GatedLogin), "accounts, earliest next attempt first"),
});
export type GatedLoginPage = Shape<typeof GatedLoginPage>;

const loginGate = nullable(LoginGate, {
  description: "account of the delayed login that the job is waiting for",
});

export const ControlEvent = exactly({
  action: text,
  user: nullable(text),
  timestamp: time,
  why: nullable(text, { description: "the reason given with the command" }),
  since: optional(json),
  command: optional(described(text, "id of the bulk command, if it was one")),
});
export type ControlEvent = Shape<typeof ControlEvent>;

export const HistoryEvent = exactly({ timestamp: time, type: text, reason: optional(text) });
export type HistoryEvent = Shape<typeof HistoryEvent>;

/** A row of `GET /_tandem/jobs`. */
export const Job = exactly({
  id: described(text, "the replication id; as long as that is unknown, the job id"),
  name: described(text, "`database/document`, `rule/database`, or the id of a transient job"),
  database: nullable(text),
  doc_id: nullable(text),
  source: nullable(text),
  target: nullable(text),
  user: nullable(text),
  node: nullable(text),
  pid: nullable(text),
  state: oneOf(JOB_STATES),
  info: nullable(recordOf(json)),
  history: listOf(HistoryEvent),
  start_time: time,
  rule: nullable(text, { description: "the rule that created the job" }),
  tags: recordOf(text),
  run_on: described(listOf(text), "labels that a node must have to run the job"),
  after: described(
    listOf(text),
    "names of the jobs that must complete or catch up before the first run of this job",
  ),
  pair: described(flag, "whether the job replicates in both directions"),
  error_count: count,
  failing: flag,
  failing_since: nullable(time),
  last_failure: nullable(LastFailure),
  login_gate: loginGate,
  left_behind: count,
  stalled: flag,
  parked: flag,
  lag_sec: nullable(number, { description: "null if unknown" }),
  behind_since: nullable(time),
  pending: nullable(count, { description: "changes not copied yet; null if unknown" }),
  docs_per_sec: number,
  bytes_per_sec: number,
  held_back_by: nullable(text),
  next_try: nullable(time),
  paused: flag,
  restart_at: json,
  control: listOf(ControlEvent),
});
export type Job = Shape<typeof Job>;

export const JobPage = exactly({
  total_rows: nullable(count, {
    description: "number of matching jobs; null if counting would take too long",
  }),
  offset: count,
  bookmark: nullable(text, { description: "start of the next page" }),
  jobs: listOf(Job),
});
export type JobPage = Shape<typeof JobPage>;

/** A run that has ended. Counts of a lost run are null. */
export const JobRun = exactly({
  start: time,
  end: time,
  cause: text,
  reason: nullable(text),
  revisions_checked: nullable(count),
  missing_revisions_found: nullable(count),
  docs_read: nullable(count),
  docs_written: nullable(count),
  doc_write_failures: nullable(count),
  bytes: nullable(count),
  lag_sec: nullable(number, { description: "lag at the end of the run; null if unknown" }),
  checkpoint: json,
});
export type JobRun = Shape<typeof JobRun>;

export const RunPage = exactly({ total_rows: count, runs: listOf(JobRun) });
export type RunPage = Shape<typeof RunPage>;

export const DocumentFailure = exactly({
  id: text,
  rev: text,
  phase: text,
  status: nullable(count),
  reason: text,
  first: time,
  last: time,
  tries: count,
});
export type DocumentFailure = Shape<typeof DocumentFailure>;

export const FailurePage = exactly({ total_rows: count, failures: listOf(DocumentFailure) });
export type FailurePage = Shape<typeof FailurePage>;

export const FailureCount = exactly({
  phase: text,
  status: nullable(count),
  error: text,
  count,
});
export type FailureCount = Shape<typeof FailureCount>;

export const FailureCounts = exactly({ total_rows: count, counts: listOf(FailureCount) });

/** Response to a retry of failed documents: `tried` were retried, and `total_rows` still fail. */
export const RetriedFailures = exactly({ ok: flag, tried: count, total_rows: count });
export type RetriedFailures = Shape<typeof RetriedFailures>;

/** Jobs whose last failures have the same class, side and host, or jobs with the same tag. */
export const FailingGroup = exactly({
  tag: nullable(text, {
    description:
      "with `group_by`, the value of the tag; class, side and host are then those of the job in `example`",
  }),
  class: text,
  side,
  host: nullable(text),
  count,
  since: described(time, "`failing_since` of the job in `example`"),
  next_try: nullable(time),
  error: text,
  reason: text,
  example: described(text, "id of the job that has been failing longest"),
  login: nullable(
    exactly({ host: described(text, "scheme, host and port of the server"), username: text }),
    {
      description:
        "the account of the job in `example`, if replacing the account's password may help; otherwise null",
    },
  ),
  login_gate: loginGate,
});
export type FailingGroup = Shape<typeof FailingGroup>;

export const FailingPage = exactly({
  total_rows: described(count, "number of groups"),
  jobs: described(count, "number of failing jobs"),
  groups: listOf(FailingGroup),
});
export type FailingPage = Shape<typeof FailingPage>;

const CommandOutcome = exactly({
  ok: flag,
  matched: count,
  changed: count,
  jobs: optional(
    nullable(listOf(text), { description: "changed jobs, if `list=true`; null if too many" }),
  ),
});
const CommandBegun = exactly({
  ok: flag,
  id: described(text, "id of the command"),
  matched: count,
});

/**
 * Response to a command for several jobs: the outcome, or 202 with the id of the command, which
 * continues in the background.
 */
export const CommandedJobs = Type.Union([CommandOutcome, CommandBegun]);
export type CommandedJobs = Pick<Shape<typeof CommandOutcome>, "ok" | "matched"> &
  Partial<Shape<typeof CommandOutcome> & Shape<typeof CommandBegun>>;

/** A command for several jobs. */
export const BulkCommand = exactly({
  id: text,
  action: text,
  user: nullable(text),
  why: nullable(text),
  undoes: nullable(text, { description: "the command that this one undoes" }),
  state: oneOf(["running", "completed", "cancelled"]),
  matched: described(count, "number of selected jobs"),
  done: described(count, "number of jobs processed"),
  changed: count,
  failed: described(count, "number of jobs whose state does not permit the action"),
  started: time,
  ended: nullable(time),
  rules: optional(
    described(listOf(text), "rules whose credentials were replaced too, after those of the jobs"),
  ),
});
export type BulkCommand = Shape<typeof BulkCommand>;

export const CommandPage = exactly({ commands: described(listOf(BulkCommand), "newest first") });
export type CommandPage = Shape<typeof CommandPage>;

/** Delivery of alerts to the receiver. */
export const AlertDelivery = exactly({
  waiting: described(count, "number of alerts waiting to be sent, counted up to 1,000"),
  rejected: described(count, "number of alerts that the receiver has rejected"),
  last_sent: nullable(time),
  failure: nullable(
    exactly({
      time,
      error: text,
      dropped: described(flag, "whether the alert was dropped because the receiver rejected it"),
    }),
    { description: "the last failed delivery; null once one has succeeded" },
  ),
});
export type AlertDelivery = Shape<typeof AlertDelivery>;

export const JobEvent = exactly({
  place: described(text, "id of the event in the log"),
  time,
  id: text,
  name: described(text, "name of the job, or its last name if the job was removed"),
  former_id: optional(text),
  changes: listOf(text),
  matches: flag,
  job: nullable(Job),
});
export type JobEvent = Shape<typeof JobEvent>;

export const PastPage = exactly({
  events: described(listOf(JobEvent), "newest first"),
  before: nullable(text, { description: "start of the next page" }),
});
export type PastPage = Shape<typeof PastPage>;

/** Response to a replacement of credentials. */
export const ReplacedCredentials = exactly({
  ok: flag,
  dry_run: optional(flag),
  id: optional(described(text, "id of the command, if it continues after the response")),
  matched: count,
  documents: count,
  transient: count,
  withheld: optional(exactly({ count, owners: listOf(nullable(text)) })),
  changed: optional(count),
  refused: optional(count),
  rules: listOf(text),
});
export type ReplacedCredentials = Shape<typeof ReplacedCredentials>;
