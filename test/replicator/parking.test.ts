/**
 * Continuous jobs that have caught up. They release their slots, and run again when their sources
 * change. In virtual time.
 */
import { afterEach, expect, test } from "vitest";
import type { DatabaseHook } from "../../src/databases/index.ts";
import { type Fetch, RequestFailedError } from "../../src/http-client/index.ts";
import { type JobFilter, parseReplication } from "../../src/replicator/index.ts";
import { changesPendingOf } from "../../src/replicator/job-lists/job-views.ts";
import { ParkedJobsWaking } from "../../src/replicator/parking/parked-jobs-waking.ts";
import { LOCAL_SOURCE } from "../../src/replicator/request/watched-place.ts";
import { SUBSPACES } from "../../src/server/layout.ts";
import { World } from "../simulation/kernel/world.ts";
import { openVirtualNode } from "../support/virtual-node.ts";

type Node = ReturnType<typeof openVirtualNode>;

/** First element of the keys of recently parked jobs. */
const NEWLY_PARKED = 42;
const JOE = { userName: "joe", isAdmin: true };
const nodes: Node[] = [];
afterEach(async () => {
  for (const node of nodes.splice(0)) await node.stop();
});

async function open(options: Parameters<typeof openVirtualNode>[0] = {}): Promise<Node> {
  const node = openVirtualNode(options);
  nodes.push(node);
  await node.start();
  return node;
}

async function startJob({ world, replicator }: Node, source: string): Promise<string> {
  const asked = { source, target: `${source}-copy`, create_target: true, continuous: true };
  return world.until(replicator.start(parseReplication(asked), JOE));
}

const parkedCount = ({ world, replicator }: Node): Promise<number | undefined> =>
  world.until(
    replicator.lists.page({ filter: { parked: true }, limit: 100 }).then(({ total }) => total),
  );

async function onceParked(node: Node, count: number): Promise<void> {
  while ((await parkedCount(node)) !== count)
    await node.world.time.run(node.world.time.nowMs + 500);
}

async function onceCopied(node: Node, database: string, id: string): Promise<void> {
  const { world, kv, databases } = node;
  const read = () =>
    kv.read(async (tx) => (await databases.open(tx, database)).documents.read(tx, id));
  while ((await world.until(read())) === undefined) await world.time.run(world.time.nowMs + 100);
}

test("a job that has caught up is parked after `park_after_sec`, and is still shown as running", async () => {
  const node = await open({ config: { parkAfterSec: 10 } });
  await node.createDatabase("a");
  await node.put("a", "one", {});
  const id = await startJob(node, "a");
  await onceCopied(node, "a-copy", "one");
  const copiedAtMs = node.world.time.nowMs;
  await onceParked(node, 1);
  expect(node.world.time.nowMs - copiedAtMs).toBeGreaterThanOrEqual(10_000);
  const entry = await node.world.until(node.replicator.find(id));
  expect(entry).toMatchObject({ state: "running", data: { state: "parked", changesPending: 0 } });
  const states = { states: ["running"] as const };
  const running = await node.world.until(node.replicator.lists.page({ filter: states, limit: 5 }));
  expect([running.total, running.entries.map(({ jobId }) => jobId)]).toEqual([1, [id]]);
});

test("while more than a tenth of the slots are in use, a new job is parked when it has caught up, without an update before", async () => {
  const node = await open({ config: { parkAfterSec: 10, jobsMax: 9 } });
  await node.createDatabase("a");
  await node.put("a", "one", {});
  const id = await startJob(node, "a");
  await onceCopied(node, "a-copy", "one");
  const copiedAtMs = node.world.time.nowMs;
  await onceParked(node, 1);
  expect(node.world.time.nowMs - copiedAtMs).toBeLessThan(2_000);
  const { data } = (await node.world.until(node.replicator.find(id))) ?? {};
  expect(data).toMatchObject({ state: "parked", statistics: { docsWritten: 1 } });
  expect(data?.history.map(({ type }) => type)).toEqual(["parked", "started", "added"]);
  expect(node.names.filter((name) => name === "replication.reported")).toEqual([]);
});

test("a job does not park if its target was re-created, but copies everything again", async () => {
  const node = await open({ config: { parkAfterSec: 10 } });
  const { world, kv, databases, names } = node;
  await node.createDatabase("a");
  await node.put("a", "one", {});
  const id = await startJob(node, "a");
  await onceCopied(node, "a-copy", "one");
  await world.until(kv.transact((tx) => databases.remove(tx, "a-copy")));
  await node.createDatabase("a-copy");
  await onceCopied(node, "a-copy", "one");
  expect(names.filter((name) => name === "replication.parked")).toEqual([]);
  const { data } = (await world.until(node.replicator.find(id))) ?? {};
  expect(data?.history.map(({ type }) => type)).toContain("crashed");
  await onceParked(node, 1);
});

test("a change in a database wakes only the jobs whose source is this database", async () => {
  const node = await open({ config: { parkAfterSec: 2 } });
  for (const name of ["a", "b"]) {
    await node.createDatabase(name);
    await startJob(node, name);
  }
  await onceParked(node, 2);
  await node.put("b", "two", {});
  await onceCopied(node, "b-copy", "two");
  expect(node.names.filter((name) => name === "replication.woken")).toHaveLength(1);
  await onceParked(node, 2);
});

test.each([
  ["of a database", (waking: ParkedJobsWaking) => waking.wakeDatabases(["other", "a", "none"])],
  ["of a source", (waking: ParkedJobsWaking) => waking.wakeAll()],
])(
  "all parked jobs %s are woken together, even if their rows fill more than two pages",
  async (_, wake) => {
    const count = 205;
    const node = await open({ config: { parkAfterSec: 2, jobsMax: 300 } });
    const { world, replicator } = node;
    for (const name of ["a", "other"]) await node.createDatabase(name);
    for (let number = 0; number < count; number++) {
      const source = number === 0 ? "other" : "a";
      const asked = { source, target: `t${number}`, create_target: true, continuous: true };
      await world.until(replicator.start(parseReplication(asked), JOE));
    }
    await onceParked(node, count);
    let wokenCount = 0;
    world.listeners.push((name, { jobCount }) => {
      if (name === "replication.woken") wokenCount += Number(jobCount);
    });
    await world.until(wake(new ParkedJobsWaking(node, LOCAL_SOURCE)));
    expect(wokenCount).toBe(count);
  },
);

test("jobs that have caught up need no slot, so that one slot is enough for twenty jobs", async () => {
  const node = await open({
    config: { parkAfterSec: 2, jobsMax: 1, runSecMin: 0, intervalSec: 5 },
  });
  for (let number = 0; number < 20; number++) {
    await node.createDatabase(`d${number}`);
    await startJob(node, `d${number}`);
  }
  await onceParked(node, 20);
  await node.put("d7", "doc", {});
  const changedAtMs = node.world.time.nowMs;
  await onceCopied(node, "d7-copy", "doc");
  expect(node.world.time.nowMs - changedAtMs).toBeLessThan(5000);
});

test("jobs park after one second without changes while all slots are taken", async () => {
  const node = await open({ config: { parkAfterSec: 60, jobsMax: 2 } });
  const { world } = node;
  for (let number = 0; number < 20; number++) {
    await node.createDatabase(`d${number}`);
    await startJob(node, `d${number}`);
  }
  const beginMs = world.time.nowMs;
  // Nineteen jobs park early, because other jobs wait for their slots. No job waits for the slot of
  // the last one.
  await onceParked(node, 19);
  expect(world.time.nowMs - beginMs).toBeLessThan(40_000);
  await onceParked(node, 20);
  expect(world.time.nowMs - beginMs).toBeGreaterThan(60_000);
});

test("a watcher that starts finds changes that were made while no node ran", async () => {
  const world = new World("parked");
  const first = await open({ world, config: { parkAfterSec: 2 } });
  await first.createDatabase("a");
  await startJob(first, "a");
  await onceParked(first, 1);
  await first.stop();
  nodes.splice(0);
  const second = openVirtualNode({ world, config: { parkAfterSec: 2 } });
  nodes.push(second);
  await second.put("a", "late", {});
  await second.start();
  await onceCopied(second, "a-copy", "late");
});

test("a parked job can be paused, resumed, reset and cancelled like any other job", async () => {
  const node = await open({ config: { parkAfterSec: 2 } });
  const { world, replicator } = node;
  await node.createDatabase("a");
  const id = await startJob(node, "a");
  await onceParked(node, 1);
  expect(await world.until(replicator.commands.pause(id, { userName: "joe" }))).toBe("done");
  expect(await parkedCount(node)).toBe(0);
  await node.put("a", "unseen", {});
  await world.time.run(world.time.nowMs + 60_000);
  expect(await world.until(replicator.find(id))).toMatchObject({ state: "pending" });
  expect(await world.until(replicator.commands.resume(id, { userName: "joe" }))).toBe("done");
  await onceCopied(node, "a-copy", "unseen");
  await onceParked(node, 1);
  expect(await world.until(replicator.commands.startFrom(id, 0, { userName: "joe" }))).toBe("done");
  await onceParked(node, 1);
  expect(await world.until(replicator.commands.cancel(id, { userName: "joe" }))).toBe("done");
  expect(await world.until(replicator.find(id))).toBeUndefined();
});

test("`park_after_sec = 0` disables parking", async () => {
  const node = await open({ config: { parkAfterSec: 0 } });
  await node.createDatabase("a");
  await startJob(node, "a");
  await node.world.time.run(node.world.time.nowMs + 600_000);
  expect(await parkedCount(node)).toBe(0);
});

test("a parked job fails immediately if its source is deleted", async () => {
  const node = await open({ config: { parkAfterSec: 2 } });
  const { world, kv, databases, replicator } = node;
  await node.createDatabase("a");
  const id = await startJob(node, "a");
  await onceParked(node, 1);
  await world.until(kv.transact((tx) => databases.remove(tx, "a")));
  await world.time.run(world.time.nowMs + 10_000);
  const entry = await world.until(replicator.find(id));
  expect(entry?.data.failing).toMatchObject({ error: "db_not_found" });
});

/**
 * Opens a server with one empty database and without an update feed. The test can make the server
 * unreachable.
 */
function openServer(world: World) {
  const server = { isAway: false };
  const fetch: Fetch = async ({ method, url, signal }) => {
    await world.time.sleep(url.includes("longpoll") ? 5_000 : 10, signal);
    if (server.isAway) throw new RequestFailedError({ method, url, cause: "ECONNREFUSED" });
    const { pathname } = new URL(url);
    const exists = pathname === "/a" || pathname === "/a/" || pathname.endsWith("_changes");
    const info = { update_seq: "7-x", instance_start_time: "0" };
    const changes = { results: [], last_seq: "7-x", pending: 0 };
    const body = JSON.stringify(pathname.endsWith("_changes") ? changes : info);
    return {
      status: exists ? 200 : 404,
      headers: new Map(),
      body: (async function* () {
        yield new TextEncoder().encode(exists ? body : '{"error":"not_found"}');
      })(),
      discard: () => {},
    };
  };
  return { server, fetch };
}

test("a parked job is listed as failing if its source is unreachable for minutes", async () => {
  const world = new World("away");
  const { server, fetch } = openServer(world);
  const node = await open({ world, fetch, config: { parkAfterSec: 2 } });
  const asked = { source: "http://far/a", target: "b", create_target: true, continuous: true };
  const id = await world.until(node.replicator.start(parseReplication(asked), JOE));
  await onceParked(node, 1);
  await world.time.run(world.time.nowMs + 5_000);
  // A watcher that compares all databases does not need the list of recently parked jobs, so the
  // list is empty.
  const left = SUBSPACES.replicator.range([NEWLY_PARKED]);
  expect((await world.until(node.kv.read((tx) => tx.getRangePage(left)))).entries).toEqual([]);
  server.isAway = true;
  await world.time.run(world.time.nowMs + 60_000);
  expect(await parkedCount(node)).toBe(1);
  await world.time.run(world.time.nowMs + 240_000);
  const entry = await world.until(node.replicator.find(id));
  expect(entry?.data.failing).toMatchObject({ class: "unreachable", side: "source" });
});

test("the lag of a parked job is unknown while its source does not respond", async () => {
  const world = new World("silent");
  const { server, fetch } = openServer(world);
  const node = await open({ world, fetch, config: { parkAfterSec: 2 } });
  const { replicator } = node;
  const asked = { source: "http://far/a", target: "b", create_target: true, continuous: true };
  const id = await world.until(replicator.start(parseReplication(asked), JOE));
  await node.createDatabase("near");
  await startJob(node, "near");
  await onceParked(node, 2);
  const listed = async (filter: JobFilter) =>
    (await world.until(replicator.lists.page({ filter, limit: 9 }))).entries.length;
  const counts = async () => ({
    unknown: await listed({ unknown: true }),
    parkedUnknown: await listed({ unknown: true, parked: true }),
    known: await listed({ unknown: false }),
    caughtUp: await listed({ isCaughtUp: true }),
    metric: (await world.until(replicator.figures.read())).unknownCount,
    pending: await world.until(
      replicator.find(id).then((entry) => entry && changesPendingOf(entry)),
    ),
  });
  const proven = { unknown: 0, parkedUnknown: 0, known: 2, caughtUp: 2, metric: 0, pending: 0 };
  expect(await counts()).toEqual(proven);
  server.isAway = true;
  await world.time.run(world.time.nowMs + 2_000);
  const silent = { unknown: 1, parkedUnknown: 1, known: 1, caughtUp: 1, metric: 1, pending: null };
  expect(await counts()).toEqual(silent);
  // After longer pauses between the attempts, the counts are still the same.
  await world.time.run(world.time.nowMs + 20_000);
  expect(await counts()).toEqual(silent);
  expect(await parkedCount(node)).toBe(2);
  server.isAway = false;
  await world.time.run(world.time.nowMs + 20_000);
  expect(await counts()).toEqual(proven);
});

test("a parked job retries failed documents after `failure_retry_sec`", async () => {
  let isRefusing = true;
  const refusing: DatabaseHook = {
    appliesTo: (database) => database === "a-copy",
    beforeWrite: async (_tx, _database, edit) =>
      isRefusing ? { rejected: "forbidden", reason: "not now" } : { edit },
  };
  const node = await open({ config: { parkAfterSec: 2 }, hooks: [refusing] });
  await node.createDatabase("a");
  await node.put("a", "one", {});
  const options = { create_target: true, continuous: true, failure_retry_sec: 600 };
  const asked = { source: "a", target: "a-copy", ...options };
  await node.world.until(node.replicator.start(parseReplication(asked), JOE));
  await onceParked(node, 1);
  isRefusing = false;
  const parkedAtMs = node.world.time.nowMs;
  await onceCopied(node, "a-copy", "one");
  expect(node.world.time.nowMs - parkedAtMs).toBeLessThanOrEqual(610_000);
});
