/** Alerts. Each breach and its end are reported once, whichever node detects them. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { createSystemRuntime } from "../../../src/host/index.ts";
import { KeyValueStore, MemoryEngine } from "../../../src/kv/index.ts";
import { NO_CAUSE } from "../../../src/replicator/alerts/alert.ts";
import { AlertStore } from "../../../src/replicator/alerts/alert-store.ts";
import { AlertTests } from "../../../src/replicator/alerts/alert-tests.ts";
import {
  type AlertKind,
  AlertWatch,
  parseReplication,
  REPLICATION_JOB_TYPE,
  type Tags,
} from "../../../src/replicator/index.ts";
import { amendJob } from "../../../src/replicator/job-changes/amend-job.ts";
import { failingAfter, NO_PLACE } from "../../../src/replicator/jobs/failing.ts";
import { jobOutcome, type ReplicationJobData } from "../../../src/replicator/jobs/job-data.ts";
import { decodeJob, encodeProgress } from "../../../src/replicator/jobs/job-data-record.ts";
import type { RuleFailure } from "../../../src/replicator/rules/rule-progress.ts";
import { UNFOLLOWED } from "../../../src/replicator/rules/rule-summaries.ts";
import { SUBSPACES } from "../../../src/server/layout.ts";
import { composeNode } from "../../support/compose-node.ts";

const TURN_MS = 10_000;
const LAG_SEC = 100;
const START_MS = 1_800_000_000_000;
const FAILURE = { error: "error", reason: "refused" };
const CAUSE = { ...NO_PLACE, class: "unreachable" } as const;

let world: ReturnType<typeof open>;

function open() {
  let nowMs = START_MS;
  const system = createSystemRuntime();
  const runtime = { ...system, clock: { ...system.clock, nowMs: () => nowMs } };
  const kv = new KeyValueStore({ runtime, engine: new MemoryEngine({ runtime }) });
  const node = composeNode({ runtime, kv });
  const settings: { kinds: AlertKind[]; lagSec: number } = {
    kinds: ["failing", "stalled", "left_behind", "lag", "rule_failing", "finished"],
    lagSec: LAG_SEC,
  };
  const failures = new Map<string, RuleFailure>();
  const watch = () =>
    new AlertWatch({
      runtime,
      kv,
      subspace: SUBSPACES.replicator,
      events: node.events,
      index: node.index,
      rules: { failures: async () => failures, tagsOf: async () => undefined },
      settings,
      tags: { metricTags: ["team"] },
      reportsRules: async () => true,
    });
  const pass = (sec: number) => (nowMs += sec * 1000);
  return { runtime, node, kv, settings, failures, watch, pass };
}

beforeEach(async () => {
  world = open();
  await world.node.replicator.prepare();
});
afterEach(() => world.kv.close());

/** Returns an alert watch that has become the leader and has processed all events. */
async function begun(): Promise<AlertWatch> {
  const watch = world.watch();
  expect(await watch.takeTurn(TURN_MS)).toBe("taken");
  expect(await followAll(watch)).toBe(true);
  return watch;
}

/** Processes all events. Returns whether some events had already been deleted. */
async function followAll(watch: AlertWatch): Promise<boolean> {
  for (let isGap = false; ; ) {
    const followed = await watch.follow();
    if (followed === "gap") isGap = true;
    else if (followed !== "more") return isGap;
  }
}

function addJob(name: string, tags?: Tags): Promise<string> {
  const asked = parseReplication({ source: "http://far.example/db", target: name, tags });
  return world.node.replicator.start(asked, { userName: "ann", isAdmin: true });
}

async function change(id: string, changed: Partial<ReplicationJobData>): Promise<void> {
  const { kv, node } = world;
  await kv.transact(async (tx) => {
    const job = await node.jobs.get(tx, { type: REPLICATION_JOB_TYPE, id });
    if (job === undefined) throw new Error("The job is there");
    const data = { ...decodeJob(job), ...changed };
    await node.jobs.resubmit(tx, job, 2 ** 33, encodeProgress(data as ReplicationJobData));
  });
}

async function fail(id: string): Promise<void> {
  const found = (await world.node.replicator.lists.byId([id])).get(id);
  const failing = failingAfter(found?.entry.data.failing, FAILURE, CAUSE, START_MS);
  await change(id, { ...jobOutcome("crashing", FAILURE), failing });
}

const recover = (id: string): Promise<void> =>
  change(id, { ...jobOutcome("pending"), failing: undefined });

async function behindSince(id: string, sinceMs: number | undefined): Promise<void> {
  const backlog = { sinceMs, pending: 1, seenMs: START_MS };
  await world.kv.transact((tx) => world.node.backlogs.set(tx, id, backlog));
}

interface SentAlert {
  readonly what: string;
  readonly id: string;
  readonly breachId: string;
}

/** Returns and removes the pending alerts, oldest first. */
async function reported(watch: AlertWatch): Promise<SentAlert[]> {
  const found: SentAlert[] = [];
  for (;;) {
    const group = await watch.nextGroup(() => false);
    const [waiting] = group;
    if (waiting === undefined) break;
    const { kind, status, id, breachId } = waiting.alert;
    found.push({ what: `${kind} ${status}`, id, breachId });
    await watch.settle([waiting], { kind: "sent" });
  }
  return found;
}

const whats = async (watch: AlertWatch) => (await reported(watch)).map(({ what }) => what);

test("a job that fails repeatedly causes one alert, its recovery causes another alert, and later failures cause a new one", async () => {
  const watch = await begun();
  const id = await addJob("a");
  for (let tries = 0; tries < 3; tries++) {
    await fail(id);
    await followAll(watch);
  }
  const [firing, ...others] = await reported(watch);
  expect([firing?.what, others]).toEqual(["failing firing", []]);
  await recover(id);
  await followAll(watch);
  const [resolved] = await reported(watch);
  expect(resolved).toMatchObject({ what: "failing resolved", breachId: firing?.id });
  expect(resolved?.id).not.toBe(firing?.id);
  // A breach that ends before the watch reads the events is still reported.
  await fail(id);
  await recover(id);
  await followAll(watch);
  expect(await whats(watch)).toEqual(["failing firing", "failing resolved"]);
});

test("an alert has the configured tags of its job, and its end has the same tags even if the job's tags change", async () => {
  const watch = await begun();
  const id = await addJob("a", { team: "billing", env: "prod" });
  await fail(id);
  const untagged = await addJob("b");
  await fail(untagged);
  await followAll(watch);
  const first = await watch.nextGroup(() => false);
  expect(first.map(({ alert }) => alert.cause.tags)).toEqual([["team:billing"]]);
  await watch.settle(first, { kind: "sent" });
  const others = await watch.nextGroup(() => false);
  expect(others.map(({ alert }) => [alert.jobId, alert.cause.tags])).toEqual([[untagged, []]]);
  await watch.settle(others, { kind: "sent" });
  const { kv, node } = world;
  await kv.transact(async (tx) => {
    const job = await node.jobs.get(tx, { type: REPLICATION_JOB_TYPE, id });
    if (job !== undefined) await amendJob(node, tx, job, { tags: { team: "sales" } });
  });
  await recover(id);
  await followAll(watch);
  const [resolved] = await watch.nextGroup(() => false);
  expect(resolved?.alert).toMatchObject({ status: "resolved", cause: { tags: ["team:billing"] } });
});

test("rules that fail for the same cause share an alert message, and each rule's alert is resolved when the rule recovers", async () => {
  const watch = await begun();
  const { failures, settings } = world;
  const cause = { class: "dns", host: "far.example" } as const;
  const failing = { ...FAILURE, cause };
  for (const rule of ["a", "b"]) failures.set(rule, failing);
  failures.set("c", { error: "unauthorized", reason: "" });
  await watch.compareSilent();
  await watch.compareSilent();
  const groups = async () => {
    const found: (readonly (string | undefined)[])[] = [];
    for (;;) {
      const group = await watch.nextGroup(() => false);
      const [first] = group;
      if (first === undefined) return found.toSorted();
      const { kind, status, cause: of } = first.alert;
      const rules = group.map(({ alert }) => alert.jobId).toSorted();
      found.push([kind, status, of.class, of.side, of.host, ...rules]);
      await watch.settle(group, { kind: "sent" });
    }
  };
  const dns = ["dns", "source", "far.example"];
  const unauthorized = ["unauthorized", "source", undefined];
  expect(await groups()).toEqual([
    ["rule_failing", "firing", ...dns, "a", "b"],
    ["rule_failing", "firing", ...unauthorized, "c"],
  ]);
  failures.delete("a");
  failures.delete("c");
  await watch.compareSilent();
  expect(await groups()).toEqual([
    ["rule_failing", "resolved", ...dns, "a"],
    ["rule_failing", "resolved", ...unauthorized, "c"],
  ]);
  settings.kinds = ["failing"];
  failures.set("d", failing);
  await watch.compareSilent();
  expect(await groups()).toEqual([]);
});

test("a rule that no node follows causes an alert, but not shortly after a node has started", async () => {
  const watch = await begun();
  const { failures } = world;
  failures.set("users", UNFOLLOWED);
  await watch.compareAll();
  failures.delete("users");
  await watch.compareSilent();
  expect(await whats(watch)).toEqual([]);
  failures.set("users", UNFOLLOWED);
  await watch.compareSilent();
  expect(await whats(watch)).toEqual([]);
  await watch.compareSilent();
  expect(await whats(watch)).toEqual(["rule_failing firing"]);
  failures.delete("users");
  await watch.compareSilent();
  expect(await whats(watch)).toEqual(["rule_failing resolved"]);
});

test("stalled and ended jobs cause alerts, and removing a job ends its breaches", async () => {
  const watch = await begun();
  const [id, done] = [await addJob("a"), await addJob("b")];
  await change(id, { stallCount: 1 });
  await change(id, { stallCount: 2 });
  await change(done, jobOutcome("completed"));
  await followAll(watch);
  expect(await whats(watch)).toEqual(["stalled firing", "finished completed"]);
  await world.node.replicator.commands.cancel(id, { userName: null });
  await followAll(watch);
  expect(await whats(watch)).toEqual(["stalled resolved"]);
});

test("failed documents cause an alert, and the alert is resolved when the documents arrive", async () => {
  const watch = await begun();
  const id = await addJob("a");
  const { kv, node } = world;
  const entry = (await node.replicator.lists.byId([id])).get(id)?.entry;
  const baseId = String(entry?.data.replicationId).replace(/\+.*$/, "");
  for (const isLeft of [true, true, false]) {
    await kv.transact((tx) => node.index.leftBehind(tx, baseId, isLeft));
    await followAll(watch);
  }
  expect(await whats(watch)).toEqual(["left_behind firing", "left_behind resolved"]);
});

test("a long lag causes an alert, which is resolved once the lag has halved", async () => {
  const watch = await begun();
  const id = await addJob("a");
  await behindSince(id, START_MS);
  await watch.compareSilent();
  expect(await whats(watch)).toEqual([]);
  world.pass(LAG_SEC);
  await watch.takeTurn(TURN_MS);
  await watch.compareSilent();
  await watch.compareSilent();
  expect(await whats(watch)).toEqual(["lag firing"]);
  await behindSince(id, START_MS + (LAG_SEC / 2) * 1000);
  await watch.compareSilent();
  expect(await whats(watch)).toEqual([]);
  await behindSince(id, START_MS + (LAG_SEC / 2 + 1) * 1000);
  await watch.compareSilent();
  expect(await whats(watch)).toEqual(["lag resolved"]);
});

test("a paused job causes no lag alert, and an earlier lag alert is resolved when the job is paused", async () => {
  const watch = await begun();
  const [first, second] = (await Promise.all(["a", "b"].map((name) => addJob(name)))) as [
    string,
    string,
  ];
  const { commands } = world.node.replicator;
  await commands.pause(first, { userName: null });
  await behindSince(first, START_MS - (LAG_SEC + 1) * 1000);
  await behindSince(second, START_MS - (LAG_SEC + 1) * 1000);
  await watch.compareSilent();
  const [firing, ...others] = await reported(watch);
  expect([firing?.what, others]).toEqual(["lag firing", []]);
  await commands.pause(second, { userName: null });
  await watch.compareSilent();
  expect(await whats(watch)).toEqual(["lag resolved"]);
});

test("a job that waits for other jobs causes no lag alert", async () => {
  const watch = await begun();
  const members = { source: "a", target: "b", after: "_replicator/first" };
  const { replicator } = world.node;
  const id = await replicator.start(parseReplication(members), { userName: "ann", isAdmin: true });
  await behindSince(id, START_MS - (LAG_SEC + 1) * 1000);
  await watch.compareSilent();
  expect(await whats(watch)).toEqual([]);
  expect((await replicator.figures.read()).jobLags).toEqual([]);
  await replicator.commands.retry(id, { userName: null });
  await watch.compareSilent();
  expect(await whats(watch)).toEqual(["lag firing"]);
});

test("if events were deleted before the watch read them, the job lists reveal the breaches", async () => {
  const watch = await begun();
  const ids = await Promise.all(["a", "b", "c"].map((name) => addJob(name)));
  const [first, second] = ids as [string, string];
  await fail(first);
  await followAll(watch);
  expect(await whats(watch)).toEqual(["failing firing"]);
  await recover(first);
  await fail(second);
  world.pass(3600);
  const { kv, node } = world;
  await node.index.foldAll(kv);
  await kv.transact((tx) => node.events.thin(tx, START_MS + 3_600_000));
  await watch.takeTurn(TURN_MS);
  expect(await followAll(watch)).toBe(true);
  await watch.compareAll();
  expect((await whats(watch)).toSorted()).toEqual(["failing firing", "failing resolved"]);
  await watch.compareAll();
  expect(await whats(watch)).toEqual([]);
});

test("only one node reports alerts, and another node that takes over does not repeat any alert", async () => {
  const watch = await begun();
  const other = world.watch();
  const id = await addJob("a");
  expect(await other.takeTurn(TURN_MS)).toBe("others");
  await fail(id);
  expect(await other.follow()).toBe("lost");
  await other.compareAll();
  expect(await whats(watch)).toEqual([]);
  await followAll(watch);
  world.pass(TURN_MS / 1000 + 1);
  expect(await other.takeTurn(TURN_MS)).toBe("taken");
  expect(await watch.follow()).toBe("lost");
  await recover(id);
  await followAll(other);
  await other.compareAll();
  expect(await whats(other)).toEqual(["failing firing", "failing resolved"]);
  await other.leaveTurn();
  expect(await watch.takeTurn(TURN_MS)).toBe("taken");
});

test("a disabled kind of alert is not sent, and enabling it sends alerts for current breaches", async () => {
  const watch = await begun();
  const id = await addJob("a");
  world.settings.kinds = ["stalled"];
  await fail(id);
  await followAll(watch);
  await watch.compareAll();
  expect(await whats(watch)).toEqual([]);
  world.settings.kinds = ["failing"];
  await watch.compareAll();
  expect(await whats(watch)).toEqual(["failing firing"]);
});

test("a test alert is sent before a thousand waiting alerts", async () => {
  const watch = await begun();
  const { runtime, kv } = world;
  const subspace = SUBSPACES.replicator;
  const store = new AlertStore(subspace);
  await kv.transact(async (tx) => {
    for (let n = 0; n < 1000; n++) {
      const alert = { id: `${n}`, breachId: `${n}`, jobId: `job-${n}`, cause: NO_CAUSE };
      const times = { timeMs: START_MS, sinceMs: START_MS };
      store.append(tx, { ...alert, ...times, kind: "failing", status: "firing" });
    }
  });
  const over = new AbortController();
  const sent = new AlertTests({ runtime, kv, subspace }).send(over.signal);
  const next = () => watch.nextGroup(({ kind }) => kind !== "test");
  let group = await next();
  for (let tries = 0; tries < 100 && group.length === 0; tries++) group = await next();
  await watch.settle(group, { kind: "sent" });
  if (group.length === 0) over.abort();
  expect(await sent).toEqual({ error: undefined });
});
