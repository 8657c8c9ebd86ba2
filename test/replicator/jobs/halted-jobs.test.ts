/** Deleting a database or a rule ends the runs of its own jobs. In virtual time. */
import { expect, test } from "vitest";
import { parseReplication } from "../../../src/replicator/index.ts";
import { openVirtualNode } from "../../support/virtual-node.ts";

const JOE = { userName: "joe", isAdmin: true };

test("halting a prefix ends only the runs of jobs whose ids have this prefix", async () => {
  const node = openVirtualNode({ config: { parkAfterSec: 0 } });
  const { world, replicator, scheduler } = node;
  const halted: unknown[] = [];
  world.listeners.push((name, { jobId }) => {
    if (name === "replication.halted") halted.push(jobId);
  });
  await node.start();
  await node.createDatabase("films");
  await node.put("films", "a", {});
  const ids: string[] = [];
  for (const target of ["one", "two", "three"]) {
    const asked = { source: "films", target, create_target: true, continuous: true };
    ids.push(await world.until(replicator.start(parseReplication(asked), JOE)));
  }
  const pass = () => world.time.run(world.time.nowMs + 2_000);
  await pass();
  expect(scheduler.runningCount).toBe(3);
  const [first = "", second = ""] = ids;
  scheduler.haltJobs(second);
  await pass();
  expect([halted, scheduler.runningCount]).toEqual([[second], 2]);
  scheduler.haltJobs("no such prefix");
  scheduler.haltJobs(first.slice(0, -1));
  await pass();
  expect([halted, scheduler.runningCount]).toEqual([[second, first], 1]);
  await node.stop();
});
