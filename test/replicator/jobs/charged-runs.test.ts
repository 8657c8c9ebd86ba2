/** How running jobs charge their usage to their group, in virtual time. */
import { afterEach, expect, test } from "vitest";
import { usageSec } from "../../../src/jobs/index.ts";
import { parseReplication, REPLICATION_JOB_TYPE } from "../../../src/replicator/index.ts";
import { VirtualTime } from "../../simulation/kernel/virtual-time.ts";
import { type Node, openNode } from "../../support/open-node.ts";

const RUN_SEC = 120;
const nodes: Node[] = [];

afterEach(async () => {
  for (const node of nodes.splice(0)) void node.stop();
});

test("a continuous job is charged to its group while it runs", async () => {
  const time = new VirtualTime();
  const clock = {
    nowMs: () => Date.UTC(2026, 0, 1) + time.nowMs,
    monotonicMs: () => time.nowMs,
    sleep: (durationMs: number, signal?: AbortSignal) => time.sleep(durationMs, signal),
  };
  const node = await openNode({ runtimeOver: (system) => ({ ...system, clock }) });
  nodes.push(node);
  await node.createDatabase("a");
  const members = { source: "a", target: "b", create_target: true, continuous: true };
  const jobId = await node.replicator.start(parseReplication(members), {
    userName: "joe",
    isAdmin: true,
  });
  node.start();
  const isRunning = () => node.events.some(({ name }) => name === "replication.started");
  expect(await time.run(60_000, isRunning)).toBe(true);
  await time.run(time.nowMs + RUN_SEC * 1000);
  const used = await node.kv.read(async (tx) => {
    const job = await node.jobs.get(tx, { type: REPLICATION_JOB_TYPE, id: jobId });
    expect(job?.state).toBe("running");
    const standing = await node.jobs.groups.standing(tx, REPLICATION_JOB_TYPE, job?.group ?? "");
    return usageSec(standing, clock.nowMs() / 1000);
  });
  // The last prepayment of run time might not have been charged yet, and usage decays slightly.
  expect(used).toBeGreaterThan(RUN_SEC * 0.75);
  expect(used).toBeLessThan(RUN_SEC + 15);
});
