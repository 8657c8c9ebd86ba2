/** Which jobs a node runs, and which give way. */
import { afterEach, expect, test } from "vitest";
import {
  parseReplication,
  REPLICATOR_CONFIG_DEFAULT,
  type ReplicatorConfig,
} from "../../src/replicator/index.ts";
import { type Node, openNode } from "../support/open-node.ts";
import { openVirtualNode } from "../support/virtual-node.ts";

/** Cycles as short as can be, so that tests wait for what they bring about and for nothing else. */
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

/** The jobs that were started so far, in order. */
function starts(node: Node): unknown[] {
  return node.events
    .filter(({ name }) => name === "replication.started")
    .map(({ fields }) => fields.jobId);
}

test("continuous jobs take turns when there are more of them than slots, without a crash", async () => {
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

test("one job of a group that has had nothing runs in the next cycle, before another group's many", async () => {
  const node = await open({ config: { ...BUSY, jobsMax: 2 } });
  await node.createDatabase("a");
  for (let number = 0; number < 20; number++) await start(node, `x${number}`, "many");
  node.start();
  await node.event("replication.rotated");
  const lonely = await start(node, "y", "lonely");
  const before = node.events.filter(({ name }) => name === "replication.rotated").length;
  await node.event("replication.started", ({ jobId }) => jobId === lonely);
  const after = node.events.filter(({ name }) => name === "replication.rotated").length;
  // A cycle may have begun before the job was there.
  expect(after - before).toBeLessThanOrEqual(2);
});

/** Who is started in an hour of cycles of a minute, when two continuous jobs are there. */
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

test("a job keeps its slot until it has had its turn", async () => {
  expect(await startedInAnHour({ jobsMax: 1, runSecMin: 7200 })).toHaveLength(1);
  expect((await startedInAnHour({ jobsMax: 1, runSecMin: 120 })).length).toBeGreaterThan(10);
});

test("with free slots a job keeps its own for ever", async () => {
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
