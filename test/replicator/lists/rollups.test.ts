/** The state of the cluster by server, group and process, derived from counters and reports. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { createSystemRuntime } from "../../../src/host/index.ts";
import type { FetchResponse } from "../../../src/http-client/index.ts";
import { Latencies, RateLimits, withLatency } from "../../../src/http-client/index.ts";
import { KeyValueStore, MemoryEngine } from "../../../src/kv/index.ts";
import { hostMeasures } from "../../../src/replicator/endpoints/host-measures.ts";
import { parseReplication, REPLICATION_JOB_TYPE } from "../../../src/replicator/index.ts";
import { failingAfter } from "../../../src/replicator/jobs/failing.ts";
import { jobOutcome } from "../../../src/replicator/jobs/job-data.ts";
import { decodeJob, encodeProgress } from "../../../src/replicator/jobs/job-data-record.ts";
import type { NodeReport } from "../../../src/replicator/nodes/node-report.ts";
import { NodeStore } from "../../../src/replicator/nodes/node-store.ts";
import { SUBSPACES } from "../../../src/server/layout.ts";
import { composeNode } from "../../support/compose-node.ts";

const NOW_MS = 1_800_000_000_000;
const HOUR_MS = 3_600_000;
const STORE = new NodeStore(SUBSPACES.replicator);

let nowMs = NOW_MS;
let node: ReturnType<typeof open>;

function open() {
  const system = createSystemRuntime();
  const clock = { ...system.clock, nowMs: () => nowMs, monotonicMs: () => nowMs };
  const runtime = { ...system, clock };
  const kv = new KeyValueStore({ runtime: system, engine: new MemoryEngine({ runtime: system }) });
  return { ...composeNode({ runtime, kv }), runtime, kv };
}

beforeEach(async () => {
  nowMs = NOW_MS;
  node = open();
  await node.replicator.prepare();
});
afterEach(() => node.kv.close());

async function add(source: string, target: string, userName = "ann"): Promise<string> {
  const replication = parseReplication({ source, target, continuous: true });
  return node.replicator.start(replication, { userName, isAdmin: true });
}

async function fail(id: string, host: string): Promise<void> {
  const name = { type: REPLICATION_JOB_TYPE, id };
  const cause = { class: "unauthorized", phase: "open", side: "source", host } as const;
  const failing = failingAfter(undefined, { error: "e", reason: "r" }, cause, nowMs);
  await node.kv.transact(async (tx) => {
    const job = await node.jobs.get(tx, name);
    if (job === undefined) throw new Error("The job is there");
    const data = { ...decodeJob(job), ...jobOutcome("crashing", failing), failing };
    await node.jobs.resubmit(tx, name, NOW_MS / 1000 + 60, encodeProgress(data));
  });
}

const report = (differing: Partial<NodeReport>): NodeReport => ({
  node: "tandem@test",
  processId: "7",
  version: "1",
  memoryBytes: 1,
  eventLoopDelayMs: 1,
  worker: "nobody",
  slots: 5,
  isDraining: false,
  startedMs: nowMs,
  reportedMs: nowMs,
  hosts: [],
  ...differing,
});

const tell = (id: string, differing: Partial<NodeReport>): Promise<void> =>
  node.kv.transact(async (tx) => STORE.report(tx, id, report(differing)));

test("servers are distinguished by port, and local databases are listed separately", async () => {
  const failing = await add("http://example.com:5984/a", "example");
  await add("https://example.com/b", "http://example.com:5984/c");
  await add("https://example.com/b", "https://example.com/other");
  await add("example", "http://[::1]:5984/d");
  await fail(failing, "example.com:5984");
  await node.kv.transact((tx) => node.outages.join(tx, "http://[::1]:5984", failing));
  const { endpoints, total } = await node.replicator.endpoints.page({ skip: 0, limit: 9 });
  expect(total).toBe(3);
  expect(
    endpoints.map(({ host, sourceCount, targetCount, failing: classes, outage }) => [
      ...[host, sourceCount, targetCount, Object.fromEntries(classes), outage?.origin],
    ]),
  ).toEqual([
    ["example.com:5984", 1, 1, { unauthorized: 1 }, undefined],
    ["example.com", 2, 1, {}, undefined],
    ["[::1]:5984", 0, 1, {}, "http://[::1]:5984"],
  ]);
  const page = await node.replicator.endpoints.page({ skip: 1, limit: 1 });
  expect(page).toEqual({ total: 3, endpoints: endpoints.slice(1, 2) });
});

test("a server's measurements by all nodes are combined, except those of nodes that no longer report", async () => {
  await add("http://slow.example/a", "b");
  const hosts = (latencyMs: number, requestCount: number, limiterMs: number) => [
    { host: "slow.example", latencyMs, requestCount, limiterMs },
  ];
  await tell("one", { hosts: hosts(10, 1, 0) });
  await tell("two", { hosts: hosts(30, 3, 200) });
  await tell("old", { hosts: hosts(1000, 9, 900), reportedMs: nowMs - 31_000 });
  const measured = async () => {
    const { endpoints } = await node.replicator.endpoints.page({ skip: 0, limit: 9 });
    return endpoints.map(({ requestCount, latencyMs, limiterMs }) => ({
      ...{ requestCount, latencyMs, limiterMs },
    }));
  };
  expect(await measured()).toEqual([{ requestCount: 4, latencyMs: 25, limiterMs: 200 }]);
  nowMs += 31_000;
  expect(await measured()).toEqual([{ requestCount: 0, latencyMs: undefined, limiterMs: 0 }]);
});

test("a process measures its requests to servers, but not its change feeds", async () => {
  const latencies = new Latencies(node.runtime.clock);
  const answer = { status: 200 } as FetchResponse;
  const fetch = withLatency(
    node.runtime.clock,
    async ({ url }) => {
      nowMs += url.includes("_changes") ? 1000 : 20;
      return answer;
    },
    latencies,
  );
  const asked = { method: "GET", inactivityTimeoutMs: 1, signal: new AbortController().signal };
  const ask = (url: string) => fetch({ ...asked, method: "GET", url });
  await ask("http://a.example:5984/db/_all_docs");
  await ask("http://a.example:5984/db/_changes?feed=continuous");
  await ask("https://user:secret@b.example/db");
  const rateLimits = new RateLimits();
  rateLimits.observe("POST https://b.example/db/", 429, nowMs);
  rateLimits.observe("GET https://c.example/db/", 429, nowMs);
  expect(hostMeasures(latencies, rateLimits)).toEqual([
    { host: "b.example", requestCount: 1, latencyMs: 20, limiterMs: 24 },
    { host: "c.example", requestCount: 0, latencyMs: undefined, limiterMs: 24 },
    { host: "a.example:5984", requestCount: 1, latencyMs: 20, limiterMs: 0 },
  ]);
  nowMs += 60_000;
  await ask("http://a.example:5984/db");
  expect(latencies.list().get("a.example:5984")?.requestCount).toBe(2);
  nowMs += 60_000;
  expect([...latencies.list().keys()]).toEqual(["a.example:5984"]);
  nowMs += 120_000;
  expect(latencies.list().size).toBe(0);
});

test("each group reports its share, usage, jobs, and longest wait", async () => {
  await add("a", "b", "ann");
  nowMs += 30_000;
  await add("a", "b", "bob");
  await add("a", "c", "bob");
  await node.replicator.setShares({
    ...node.replicator.config,
    shares: new Map([["ann", 200]]),
  });
  await node.kv.transact((tx) =>
    node.jobs.groups.charge(tx, REPLICATION_JOB_TYPE, new Map([["user:ann", 50]])),
  );
  nowMs += 5000;
  const [ann, bob, ...others] = await node.replicator.groups.list();
  expect(others).toEqual([]);
  const counts = { running: 0, finished: 0 };
  expect(ann).toMatchObject({ name: "user:ann", shares: 200, waitSec: 35 });
  expect(ann?.usageSec).toBeCloseTo(50, 0);
  expect(ann?.standing).toBeCloseTo(0.25, 1);
  expect(ann?.counts).toEqual({ ...counts, pending: 1 });
  expect(bob).toMatchObject({ name: "user:bob", shares: 100, usageSec: 0, waitSec: 5 });
  expect(bob?.counts).toEqual({ ...counts, pending: 2 });
});

test("a dead process is replaced only by a process of the same node that started after its last report", async () => {
  const dead = async () =>
    (await node.replicator.nodes.list()).flatMap(({ id, state }) => (state === "dead" ? [id] : []));
  const at = (sec: number) => nowMs + sec * 1000;
  const died = (id: string, startedSec: number, reportedSec: number, name = "one") =>
    tell(id, {
      ...{
        worker: `gone-${id}`,
        node: name,
        startedMs: at(startedSec),
        reportedMs: at(reportedSec),
      },
    });
  await died("a", 0, 50);
  await died("b", 0, 60);
  await died("sibling", 10, 70);
  expect(await dead()).toEqual(["a", "b", "sibling"]);
  await died("elsewhere", 100, 110, "other");
  expect(await dead()).toEqual(["a", "b", "sibling", "elsewhere"]);
  // A process that replaces a dead one can itself be dead. It replaces only one process.
  await died("restarted", 65, 90);
  expect(await dead()).toEqual(["b", "sibling", "restarted", "elsewhere"]);
  await died("again", 95, 100);
  expect(await dead()).toEqual(["sibling", "restarted", "again", "elsewhere"]);
});

test("a process whose worker is not registered is shown as dead, and removed after an hour", async () => {
  const { workers } = node.jobs;
  const types = [REPLICATION_JOB_TYPE];
  const described = { node: "tandem@test", processId: "8", types, leaseMs: 6000 };
  const worker = await node.kv.transact(async (tx) => workers.register(tx, described));
  await tell("lives", { worker: worker.id, processId: "8" });
  await tell("died", { worker: "gone" });
  await node.replicator.nodes.setDraining("tandem@test", true);
  const states = async () =>
    (await node.replicator.nodes.list()).map(({ id, state }) => [id, state]);
  expect(await states()).toEqual([
    ["lives", "draining"],
    ["died", "dead"],
  ]);
  nowMs += HOUR_MS + 1;
  expect(await states()).toEqual([["lives", "draining"]]);
  await node.replicator.nodes.forgetOld();
  const stored = await node.kv.read((tx) => STORE.list(tx));
  expect(stored.map(({ id }) => id)).toEqual(["lives"]);
  await node.kv.transact((tx) => workers.expel(tx, worker.id));
  await node.replicator.nodes.forgetOld();
  expect(await node.kv.read((tx) => STORE.list(tx))).toEqual([]);
});
