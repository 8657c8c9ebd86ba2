/** How a node selects and preempts jobs. */
import { afterEach, expect, test } from "vitest";
import type { Fetch } from "../../src/http-client/index.ts";
import {
  parseReplication,
  REPLICATOR_CONFIG_DEFAULT,
  type ReplicatorConfig,
} from "../../src/replicator/index.ts";
import { type Node, openNode } from "../support/open-node.ts";
import { openVirtualNode } from "../support/virtual-node.ts";

/** Cycles that are as short as possible, so that tests do not have to wait long. */
const BUSY = { intervalSec: 0.05, runSecMin: 0 };
const nodes: Node[] = [];

async function open(config: Parameters<typeof openNode>[0] & object): Promise<Node> {
  const node = await openNode(config);
  nodes.push(node);
  return node;
}

afterEach(async () => {
  for (const node of nodes.splice(0)) await node.stop();
});

function start(node: Node, target: string, userName: string, more: object = {}): Promise<string> {
  const members = { source: "a", target, create_target: true, continuous: true, ...more };
  return node.replicator.start(parseReplication(members), { userName, isAdmin: true });
}

/** Returns the jobs in the order in which their runs have started. */
function starts(node: Node): unknown[] {
  return node.events
    .filter(({ name }) => name === "replication.started")
    .map(({ fields }) => fields.jobId);
}

test("continuous jobs take turns if they outnumber the slots, and taking turns does not count as a failure", async () => {
  const node = await open({ config: { ...BUSY, jobsMax: 1 } });
  await node.createDatabase("a");
  const ids = [await start(node, "x", "joe"), await start(node, "y", "joe")];
  node.start();
  const startCount = (id: string): number =>
    starts(node).filter((started) => started === id).length;
  await node.event("replication.started", () => ids.every((id) => startCount(id) >= 3));
  for (const id of ids) {
    expect((await node.replicator.find(id))?.data.errorCount).toBe(0);
  }
  expect(node.events.map(({ name }) => name)).not.toContain("replication.crashed");
});

test("a job of an idle group runs in the next cycle, even if many jobs of another group are waiting", async () => {
  const node = await open({ config: { ...BUSY, jobsMax: 2 } });
  await node.createDatabase("a");
  for (let number = 0; number < 20; number++) await start(node, `x${number}`, "many");
  node.start();
  await node.event("replication.rotated");
  const lonely = await start(node, "y", "lonely");
  const before = node.events.filter(({ name }) => name === "replication.rotated").length;
  await node.event("replication.started", ({ jobId }) => jobId === lonely);
  const after = node.events.filter(({ name }) => name === "replication.rotated").length;
  // A cycle might already have begun when the job was added.
  expect(after - before).toBeLessThanOrEqual(2);
});

/**
 * Runs two continuous jobs for an hour of one-minute cycles. Returns the jobs in the order in which
 * their runs started.
 */
async function startedInAnHour(config: Partial<ReplicatorConfig>): Promise<string[]> {
  const started: string[] = [];
  const node = openVirtualNode({
    config: { ...REPLICATOR_CONFIG_DEFAULT, intervalSec: 60, parkAfterSec: 0, ...config },
  });
  const { world, replicator } = node;
  world.listeners.push((name, fields) => {
    if (name === "replication.started") started.push(String(fields.jobId));
  });
  await node.start();
  await node.createDatabase("a");
  for (const target of ["x", "y"]) {
    const members = { source: "a", target, create_target: true, continuous: true };
    const request = parseReplication(members);
    await world.until(replicator.start(request, { userName: "joe", isAdmin: true }));
  }
  await world.time.run(world.time.nowMs + 3_600_000);
  await node.stop();
  return started;
}

test("a job keeps its slot for its minimum run time", async () => {
  expect(await startedInAnHour({ jobsMax: 1, runSecMin: 7200 })).toHaveLength(1);
  expect((await startedInAnHour({ jobsMax: 1, runSecMin: 120 })).length).toBeGreaterThan(10);
});

test("a job keeps its slot indefinitely while other slots are free", async () => {
  expect(await startedInAnHour({ jobsMax: 5, runSecMin: 0 })).toHaveLength(2);
});

test("a change of max_jobs takes effect in the next cycle", async () => {
  const config = { ...BUSY, jobsMax: 3, runSecMin: 3600 };
  const live = {
    ...config,
    get jobsMax() {
      return config.jobsMax;
    },
  };
  const node = await open({ config: live });
  await node.createDatabase("a");
  for (const target of ["x", "y", "z"]) await start(node, target, "joe");
  node.start();
  await node.event("replication.started", () => starts(node).length === 3);
  config.jobsMax = 1;
  const stopped = ({ name, fields }: (typeof node.events)[number]): boolean =>
    name === "replication.ended" && fields.state === "pending";
  await node.event("replication.ended", () => node.events.filter(stopped).length === 2);
  config.jobsMax = 3;
  await node.event("replication.started", () => starts(node).length === 5);
});

test("max_churn limits the number of jobs preempted in one cycle", async () => {
  const stopped = async (churnMax: number): Promise<number> => {
    const counts: number[] = [];
    const node = openVirtualNode({
      config: { intervalSec: 60, runSecMin: 60, parkAfterSec: 0, jobsMax: 4, churnMax },
    });
    const { world, replicator } = node;
    world.listeners.push((name, fields) => {
      if (name === "replication.rotated") counts.push(Number(fields.stopped));
    });
    await node.start();
    await node.createDatabase("a");
    for (let number = 0; number < 8; number++) {
      const members = { source: "a", target: `x${number}`, create_target: true, continuous: true };
      const request = parseReplication(members);
      await world.until(replicator.start(request, { userName: "joe", isAdmin: true }));
    }
    await world.time.run(world.time.nowMs + 1_800_000);
    await node.stop();
    expect(counts.length).toBeGreaterThan(10);
    return Math.max(...counts);
  };
  expect(await stopped(1)).toBe(1);
  expect(await stopped(2)).toBe(2);
  expect(await stopped(100)).toBe(4);
});

test("a one-shot job keeps its slot until it ends, while a continuous job can be preempted", async () => {
  const startedTogether = async (first: object): Promise<number> => {
    const silent: Fetch = ({ signal }) =>
      new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    const config = { intervalSec: 60, runSecMin: 60, jobsMax: 1, stallTimeoutSec: 100_000 };
    const node = openVirtualNode({ fetch: silent, config });
    const { world, replicator } = node;
    const started = (): number => node.names.filter((it) => it === "replication.started").length;
    await node.start();
    await node.createDatabase("a");
    const patient = { source: "http://source.test:5984/a", connection_timeout: 100_000_000 };
    const user = { userName: "joe", isAdmin: true };
    const request = parseReplication({ ...patient, target: "b", create_target: true, ...first });
    await world.until(replicator.start(request, user));
    await world.time.run(world.time.nowMs + 10_000);
    const waiting = { source: "a", target: "c", create_target: true, continuous: true };
    await world.until(replicator.start(parseReplication(waiting), user));
    await world.time.run(world.time.nowMs + 3_600_000, () => started() > 1);
    await node.stop();
    return started();
  };
  expect(await startedTogether({ continuous: true })).toBeGreaterThan(1);
  expect(await startedTogether({})).toBeLessThanOrEqual(1);
});

test("all jobs of the documents of one database belong to one group", async () => {
  const node = await open({ config: BUSY });
  await node.createDatabase("a");
  for (const database of ["_replicator", "team/_replicator"]) {
    await node.createDatabase(database);
    const body = JSON.stringify({ source: "a", target: "b", continuous: true });
    await node.put(database, "d", body);
  }
  await start(node, "c", "joe");
  const groups = ["_replicator", "team/_replicator", "user:joe", "user:"];
  const counts = await node.kv.read((tx) =>
    Promise.all(groups.map((group) => node.jobs.counts.read(tx, "replication", group))),
  );
  expect(counts.map(({ pending }) => pending)).toEqual([1, 1, 1, 0]);
});
