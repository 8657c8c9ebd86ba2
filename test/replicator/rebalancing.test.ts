/** Nodes that join the cluster. They take over their share of the running jobs. In virtual time. */
import { expect, test } from "vitest";
import { parseReplication } from "../../src/replicator/index.ts";
import { World } from "../simulation/kernel/world.ts";
import { openVirtualNode } from "../support/virtual-node.ts";

const JOB_COUNT = 60;
const USER = { userName: "joe", isAdmin: true };
const MINUTE_MS = 60_000;

function openNodeIn(world: World, churnMax: number) {
  const node = openVirtualNode({ world, config: { churnMax } });
  const stopping = new AbortController();
  const reporting = async (): Promise<void> => {
    await node.start();
    void node.nodeReporter.run(stopping.signal).catch(() => {});
  };
  return {
    ...node,
    start: reporting,
    stop: async (): Promise<void> => {
      stopping.abort(new Error("The test is over"));
      await node.stop();
    },
  };
}

test("two joining nodes each take over a third of the running jobs within minutes, and no job starts from the beginning", async () => {
  const world = new World("rebalancing");
  const churnMax = 10;
  const stops: number[] = [];
  world.listeners.push((name, fields) => {
    if (name === "replication.rotated") stops.push(Number(fields.stopped));
  });
  const first = openNodeIn(world, churnMax);
  const { replicator, scheduler } = first;
  await first.start();
  for (let number = 0; number < JOB_COUNT; number++) {
    await first.createDatabase(`a-${number}`);
    await first.put(`a-${number}`, "doc", {});
    const body = { source: `a-${number}`, target: `b-${number}`, create_target: true };
    const replication = parseReplication({ ...body, continuous: true });
    await world.until(replicator.start(replication, USER));
  }
  await world.time.run(world.time.nowMs + 5 * MINUTE_MS);
  expect(scheduler.runningCount).toBe(JOB_COUNT);
  const others = [openNodeIn(world, churnMax), openNodeIn(world, churnMax)];
  for (const node of others) await node.start();
  await world.time.run(world.time.nowMs + 5 * MINUTE_MS);
  const counts = [first, ...others].map((node) => node.scheduler.runningCount);
  expect(counts.reduce((sum, count) => sum + count)).toBe(JOB_COUNT);
  for (const count of counts) expect(count).toBeGreaterThan(JOB_COUNT / 3 - 4);
  expect(Math.max(...stops)).toBeLessThanOrEqual(churnMax);
  const stopCount = stops.length;
  await world.time.run(world.time.nowMs + 10 * MINUTE_MS);
  expect(stops).toHaveLength(stopCount);
  for await (const { data } of replicator.lists.all({})) {
    expect(data).toMatchObject({ errorCount: 0, statistics: { docsWritten: 1, docsRead: 1 } });
  }
  for (const node of [first, ...others]) await node.stop();
});
