/** How a node accepts jobs from the queue. */
import { afterEach, expect, test } from "vitest";
import { parseReplication, REPLICATION_JOB_TYPE } from "../../../src/replicator/index.ts";
import { type Node, openNode } from "../../support/open-node.ts";

const nodes: Node[] = [];

async function open(options: Parameters<typeof openNode>[0]): Promise<Node> {
  const node = await openNode(options);
  nodes.push(node);
  await node.createDatabase("a");
  return node;
}

afterEach(async () => {
  for (const node of nodes.splice(0)) await node.stop();
});

function start(node: Node): Promise<string> {
  const members = { source: "a", target: "b", create_target: true };
  return node.replicator.start(parseReplication(members), { userName: null, isAdmin: true });
}

test.each([
  [3, 3],
  [100, 20],
  [500, 50],
  [5000, 100],
])("a node with %i slots accepts at most %i jobs in one transaction", async (jobsMax, countMax) => {
  const node = await open({ config: { jobsMax } });
  const accept = node.jobs.accept.bind(node.jobs);
  const asked: number[] = [];
  node.jobs.accept = (tx, type, options) => {
    if (type === REPLICATION_JOB_TYPE) asked.push(Number(options?.countMax));
    return accept(tx, type, options);
  };
  await start(node);
  node.start();
  await node.event("replication.accepted");
  expect(asked[0]).toBe(countMax);
});

test("jobs start at random times within the startup jitter", async () => {
  const jitterMs = 123_456_000;
  const slept: number[] = [];
  const node = await open({
    config: { startupJitterMs: jitterMs },
    runtimeOver: (system) => ({
      ...system,
      random: Object.assign(system.random, { ratio: () => 0.25 }),
      clock: {
        ...system.clock,
        sleep: async (durationMs, signal) => {
          if (durationMs < jitterMs / 10) return system.clock.sleep(durationMs, signal);
          slept.push(durationMs);
        },
      },
    }),
  });
  await start(node);
  node.start();
  await node.event("replication.ended", ({ state }) => state === "completed");
  expect(slept).toEqual([jitterMs / 4]);
});
