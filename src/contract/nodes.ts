/**
 * Nodes, servers, groups, rates, settings and budgets (`docs/api/nodes.md`, `docs/api/budgets.md`).
 */
import {
  count,
  described,
  exactly,
  flag,
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
import { FormatRange } from "./upgrade.ts";

/** A process that runs jobs. Members that the process reports are null before its first report. */
export const NodeRow = exactly({
  id: nullable(text),
  name: text,
  pid: nullable(text),
  state: oneOf(["running", "draining", "dead"]),
  draining: flag,
  drained: described(flag, "the node has noticed the drain request and has no jobs left"),
  jobs: count,
  slots: nullable(count),
  labels: described(listOf(text), "labels by which jobs select the node; empty for a dead node"),
  memory_bytes: nullable(count),
  event_loop_delay_ms: nullable(number),
  lease_age_sec: nullable(number),
  version: nullable(text),
  formats: nullable(FormatRange, {
    description: "formats of the store that the program supports; null if it does not report them",
  }),
  started: nullable(time),
  last_report: nullable(time),
});
export type NodeRow = Shape<typeof NodeRow>;

export const NodePage = exactly({ total_rows: count, nodes: listOf(NodeRow) });
export type NodePage = Shape<typeof NodePage>;

export const DrainedNodes = exactly({ ok: flag, matched: count, changed: count });
export type DrainedNodes = Shape<typeof DrainedNodes>;

export const Worker = exactly({
  id: text,
  node: text,
  pid: text,
  types: listOf(text),
  since: time,
  last_sign_of_life: time,
  lease_sec: number,
  jobs: count,
});

export const WorkerPage = exactly({
  total_rows: count,
  workers: listOf(Worker),
  expelled: listOf(text),
});

const rates = exactly({
  requests_per_sec: optional(number),
  documents_per_sec: optional(number),
  megabytes_per_sec: optional(number),
});
export type BudgetRates = Shape<typeof rates>;

/** Limits on the cluster's use of a host. An absent member means no limit. */
export const BudgetDefinition = exactly({ read: optional(rates), write: optional(rates) });

/** Limits in a response. */
export const Budget = exactly({ read: rates, write: rates });
export type Budget = Shape<typeof Budget>;

export const BudgetRow = exactly({
  name: described(text, "a host, or account@host"),
  read: rates,
  write: rates,
});
export type BudgetRow = Shape<typeof BudgetRow>;

export const BudgetPage = exactly({ total_rows: count, budgets: listOf(BudgetRow) });
export type BudgetPage = Shape<typeof BudgetPage>;

/** A server referenced by jobs. */
export const EndpointRow = exactly({
  host: text,
  source_jobs: count,
  target_jobs: count,
  failing: described(recordOf(count), "failing jobs by class of their last failure at this server"),
  outage: nullable(exactly({ confirmed: flag, probed: time })),
  limiter_ms: described(number, "delay added to each request after 429 responses"),
  requests: described(count, "number of requests in the last one to two minutes"),
  latency_ms: nullable(number),
  budgets: listOf(BudgetRow),
});
export type EndpointRow = Shape<typeof EndpointRow>;

export const EndpointPage = exactly({ total_rows: count, endpoints: listOf(EndpointRow) });
export type EndpointPage = Shape<typeof EndpointPage>;

/** A group of jobs, which competes with other groups for slots. */
export const GroupRow = exactly({
  name: described(text, "a _replicator database, or user:NAME"),
  shares: number,
  usage_sec: number,
  standing: described(
    number,
    "usage divided by shares; the group with the lowest value is scheduled next",
  ),
  jobs: exactly({ running: count, pending: count, ended: count }),
  longest_wait_sec: number,
});
export type GroupRow = Shape<typeof GroupRow>;

export const GroupPage = exactly({ total_rows: count, groups: listOf(GroupRow) });
export type GroupPage = Shape<typeof GroupPage>;

/** Cluster-wide counts for one minute. Counts are null if no node ran jobs. */
export const RateMinute = exactly({
  time,
  seconds: described(number, "elapsed part of the minute"),
  starts: nullable(count),
  failures: nullable(count),
  docs_written: nullable(count),
});
export type RateMinute = Shape<typeof RateMinute>;

export const Rates = exactly({ minutes: listOf(RateMinute) });
export type Rates = Shape<typeof Rates>;

export const SettingRow = exactly({
  section: text,
  key: text,
  value: nullable(text),
  default: nullable(text),
  default_words: nullable(text, {
    description: "the default in words, if no single value expresses it",
  }),
  known: described(flag, "whether the node uses the setting"),
  meaning: nullable(text, {
    description: "what the setting does, or why it has no effect",
  }),
  values: nullable(text, { description: "description of the accepted values" }),
  unit: nullable(text),
  live: described(flag, "whether a change takes effect without a restart"),
});
export type SettingRow = Shape<typeof SettingRow>;

export const NodeSettings = exactly({
  node: text,
  total_rows: count,
  settings: listOf(SettingRow),
});
export type NodeSettings = Shape<typeof NodeSettings>;
