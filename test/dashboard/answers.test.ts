/** What the dashboard reads of the node's answers is in them: its types, which no compiler compares with the node, have these members. */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { BudgetRow } from "../../src/dashboard/api/budget.ts";
import type {
  CheckedEndpoint,
  CheckedReplication,
  ControlEvent,
  DocumentFailure,
  EndpointRow,
  FailingGroup,
  FailingPage,
  FailureCount,
  GroupRow,
  HistoryEvent,
  Job,
  JobEvent,
  JobPage,
  JobRun,
  LastFailure,
  NodeRow,
  NodeSettings,
  PastPage,
  PlannedDatabases,
  RateMinute,
  Rule,
  RulePlan,
  RuleStatus,
  RulesPage,
  SettingRow,
} from "../../src/dashboard/api/types.ts";
import { closedPort } from "../support/closed-port.ts";
import { Processes, type TandemProcess } from "../support/open-process.ts";

/** The names of the members of a type that are always there; the compiler wants each of them. */
type Members<Type> = Readonly<
  Record<{ [Name in keyof Type]-?: undefined extends Type[Name] ? never : Name }[keyof Type], true>
>;

let processes: Processes;
let node: TandemProcess;

/** A rule that matches none. */
const NO_DATABASE = { source: "local", target: "copy-{db}", databases: ["nothing-*"] };

beforeAll(async () => {
  processes = new Processes();
  node = await processes.open();
  const host = `127.0.0.1:${await closedPort()}`;
  const validate = `function (doc) { throw { forbidden: "no" }; }`;
  await node.call("PUT", "/films");
  await node.call("PUT", "/films/moon", {});
  await node.call("PUT", "/strict");
  await node.call("PUT", "/strict/_design/v", { validate_doc_update: validate });
  await node.call("PUT", `/_tandem/budgets/${host}`, { read: { requests_per_sec: 1_000 } });
  await node.call("PUT", "/_replicator/strict", { source: "films", target: "strict" });
  const source = `http://${host}/x`;
  const away = { source, target: "films", continuous: true, retries_per_request: 0 };
  await node.call("PUT", "/_replicator/away", away);
  for (const [job, isThere] of [
    ["strict", ({ left_behind: count }: Job) => count === 1],
    ["away", ({ failing }: Job) => failing],
  ] as const) {
    const path = `/_tandem/jobs/_replicator%2F${job}`;
    await node.onceAnswered(
      async () => (await node.call("GET", path)).body as Job,
      (answer) => isThere(answer),
    );
  }
  await node.call("POST", "/_tandem/jobs/_replicator%2Faway/_pause", {});
  await node.call("PUT", "/_tandem/rules/none", NO_DATABASE);
});

afterAll(() => processes.close());

const PAGE: Members<JobPage> = { total_rows: true, bookmark: true, jobs: true };
const JOB: Members<Job> = {
  id: true,
  database: true,
  doc_id: true,
  source: true,
  target: true,
  user: true,
  node: true,
  state: true,
  info: true,
  history: true,
  start_time: true,
  error_count: true,
  failing: true,
  failing_since: true,
  last_failure: true,
  left_behind: true,
  stalled: true,
  parked: true,
  lag_sec: true,
  behind_since: true,
  pending: true,
  docs_per_sec: true,
  bytes_per_sec: true,
  held_back_by: true,
  next_try: true,
  paused: true,
  control: true,
};
const LAST_FAILURE: Members<LastFailure> = {
  class: true,
  error: true,
  reason: true,
  phase: true,
  side: true,
  host: true,
  time: true,
  tries: true,
  next_try: true,
};
const CONTROL: Members<Omit<ControlEvent, "since">> = {
  action: true,
  user: true,
  timestamp: true,
  why: true,
};
const HISTORY: Members<HistoryEvent> = { type: true, timestamp: true };
const RUN: Members<JobRun> = {
  start: true,
  end: true,
  cause: true,
  reason: true,
  docs_read: true,
  docs_written: true,
  doc_write_failures: true,
  bytes: true,
  lag_sec: true,
};
const FAILURE: Members<DocumentFailure> = {
  id: true,
  rev: true,
  phase: true,
  status: true,
  reason: true,
  first: true,
  last: true,
  tries: true,
};
const FAILURE_COUNT: Members<FailureCount> = {
  phase: true,
  status: true,
  error: true,
  count: true,
};
const FAILING: Members<FailingPage> = { total_rows: true, jobs: true, groups: true };
const FAILING_GROUP: Members<FailingGroup> = {
  class: true,
  side: true,
  host: true,
  count: true,
  since: true,
  error: true,
  reason: true,
  example: true,
  next_try: true,
};
const NODE: Members<NodeRow> = {
  id: true,
  name: true,
  pid: true,
  state: true,
  drained: true,
  jobs: true,
  slots: true,
  memory_bytes: true,
  event_loop_delay_ms: true,
  lease_age_sec: true,
  version: true,
  started: true,
  last_report: true,
};
const MINUTE: Members<RateMinute> = {
  time: true,
  seconds: true,
  starts: true,
  failures: true,
  docs_written: true,
};
const ENDPOINT: Members<EndpointRow> = {
  host: true,
  source_jobs: true,
  target_jobs: true,
  failing: true,
  outage: true,
  limiter_ms: true,
  requests: true,
  latency_ms: true,
  budgets: true,
};
const BUDGET: Members<BudgetRow> = { name: true, read: true, write: true };
const GROUP: Members<GroupRow> = {
  name: true,
  shares: true,
  usage_sec: true,
  standing: true,
  jobs: true,
  longest_wait_sec: true,
};
const GROUP_JOBS: Members<GroupRow["jobs"]> = { running: true, pending: true, ended: true };
const SETTINGS: Members<NodeSettings> = { node: true, settings: true };
const SETTING: Members<SettingRow> = {
  section: true,
  key: true,
  value: true,
  default: true,
  known: true,
};
const PAST: Members<PastPage> = { events: true, before: true };
const EVENT: Members<JobEvent> = {
  place: true,
  time: true,
  id: true,
  changes: true,
  matches: true,
  job: true,
};
const CHECK: Members<CheckedReplication> = {
  reason: true,
  faults: true,
  name_taken: true,
  source: true,
  target: true,
  job: true,
};
const CHECKED_ENDPOINT: Members<CheckedEndpoint> = {
  state: true,
  changes: true,
  class: true,
  error: true,
  reason: true,
};

const TWIN: Members<NonNullable<CheckedReplication["job"]>> = {
  id: true,
  database: true,
  doc_id: true,
  state: true,
};
const RULES: Members<RulesPage> = { total_rows: true, bookmark: true, rules: true };
const RULE: Members<Pick<Rule, "name" | "status">> = { name: true, status: true };
const RULE_STATUS: Members<RuleStatus> = {
  owner: true,
  changed: true,
  databases: true,
  jobs: true,
  states: true,
  failing: true,
  parked: true,
  left_behind: true,
  lag_sec: true,
  listed: true,
  followed_by: true,
  last_error: true,
  cannot_copy: true,
  faults: true,
};
const RULE_STATES: Members<RuleStatus["states"]> = {
  running: true,
  pending: true,
  crashing: true,
  completed: true,
  failed: true,
};
const PLAN: Members<RulePlan> = {
  databases: true,
  create: true,
  replace: true,
  cancel: true,
  cannot_copy: true,
};
const PLANNED: Members<PlannedDatabases> = { count: true, first: true };

const AWAY = "/_tandem/jobs/_replicator%2Faway";
const STRICT = "/_tandem/jobs/_replicator%2Fstrict";

/** `place`: the members and indexes that lead to an object within the answer. */
test.each<readonly [path: string, place: readonly (string | number)[], members: object]>([
  ["/_tandem/jobs", [], PAGE],
  ["/_tandem/jobs", ["jobs", 0], JOB],
  [AWAY, [], JOB],
  [AWAY, ["last_failure"], LAST_FAILURE],
  [AWAY, ["control", 0], CONTROL],
  [AWAY, ["history", 0], HISTORY],
  [`${STRICT}/runs`, ["runs", 0], RUN],
  [`${STRICT}/failures`, ["failures", 0], FAILURE],
  [`${STRICT}/failures/_counts`, ["counts", 0], FAILURE_COUNT],
  ["/_tandem/failing", [], FAILING],
  ["/_tandem/failing", ["groups", 0], FAILING_GROUP],
  ["/_tandem/nodes", ["nodes", 0], NODE],
  ["/_tandem/rates", ["minutes", 0], MINUTE],
  ["/_tandem/endpoints", ["endpoints", 0], ENDPOINT],
  ["/_tandem/endpoints", ["endpoints", 0, "budgets", 0], BUDGET],
  ["/_tandem/groups", ["groups", 0], GROUP],
  ["/_tandem/groups", ["groups", 0, "jobs"], GROUP_JOBS],
  ["/_tandem/settings", [], SETTINGS],
  ["/_tandem/settings", ["settings", 0], SETTING],
  ["/_tandem/events/_past", [], PAST],
  ["/_tandem/events/_past", ["events", 0], EVENT],
  ["/_tandem/events/_past", ["events", 0, "job"], JOB],
  ["/_tandem/rules", [], RULES],
  ["/_tandem/rules", ["rules", 0], RULE],
  ["/_tandem/rules/none", [], RULE],
  ["/_tandem/rules/none", ["status"], RULE_STATUS],
  ["/_tandem/rules/none", ["status", "states"], RULE_STATES],
])("GET %s has at %j what the dashboard reads", async (path, place, members) => {
  const { body } = await node.call("GET", path);
  expectMembers(body, place, members);
});

test("the check of a replication has what the form reads", async () => {
  const path = "/_tandem/replications/_check?database=_replicator";
  const { body } = await node.call("POST", path, { source: "films", target: "strict" });
  expectMembers(body, [], CHECK);
  expectMembers(body, ["source"], CHECKED_ENDPOINT);
  expectMembers(body, ["job"], TWIN);
});

test("the plan of a rule has what its form reads", async () => {
  const { body } = await node.call("PUT", "/_tandem/rules/all?dry_run=true", NO_DATABASE);
  expectMembers(body, [], PLAN);
  expectMembers(body, ["create"], PLANNED);
});

function expectMembers(
  answer: unknown,
  place: readonly (string | number)[],
  members: object,
): void {
  const found = place.reduce(
    (within, name) => (within as Readonly<Record<string | number, unknown>>)[name],
    answer,
  );
  expect(Object.keys(found as object)).toEqual(expect.arrayContaining(Object.keys(members)));
}
