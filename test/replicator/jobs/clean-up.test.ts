/** The node that cleans up, and the times of its clean-ups. In virtual time. */
import { expect, test, vi } from "vitest";
import { World } from "../../simulation/kernel/world.ts";
import { openVirtualNode } from "../../support/virtual-node.ts";

const INTERVAL_MS = 10_000;
/** The clean-up interval is a tenth of the maximum age of transient jobs. */
const config = { transientJobAgeSecMax: 100 };

function openNodes(world: World, count: number) {
  return Array.from({ length: count }, () => {
    const node = openVirtualNode({ world, config });
    return { ...node, cleaned: vi.spyOn(node.cleanUp, "once") };
  });
}

test("one node cleans up for all nodes, and another node takes over when the first one has stopped", async () => {
  const world = new World("clean-up");
  const nodes = openNodes(world, 3);
  for (const node of nodes) await node.start();
  const counts = () => nodes.map(({ cleaned }) => cleaned.mock.calls.length);
  const sum = () => counts().reduce((left, right) => left + right);
  // In a new store, the first clean-up is due after one interval.
  await world.time.run(world.time.nowMs + INTERVAL_MS - 1000);
  expect(sum()).toBe(0);
  // Each check can be up to a second late, which also delays all later checks. After twenty
  // intervals, one or two clean-ups can therefore be missing.
  await world.time.run(world.time.nowMs + 20 * INTERVAL_MS);
  expect(sum()).toBeLessThanOrEqual(20);
  expect(sum()).toBeGreaterThanOrEqual(18);
  const [busiest] = nodes.toSorted(
    (left, right) => right.cleaned.mock.calls.length - left.cleaned.mock.calls.length,
  );
  await busiest?.stop();
  const before = sum();
  await world.time.run(world.time.nowMs + 3 * INTERVAL_MS);
  expect(sum() - before).toBeGreaterThanOrEqual(2);
  for (const node of nodes) await node.stop();
});

test("a restart of the node does not change the time of the next clean-up", async () => {
  const world = new World("restarts");
  let count = 0;
  for (let start = 0; start < 8; start++) {
    const [node] = openNodes(world, 1);
    await node?.start();
    await world.time.run(world.time.nowMs + INTERVAL_MS / 4);
    await node?.stop();
    count += node?.cleaned.mock.calls.length ?? 0;
  }
  expect(count).toBe(1);
});
