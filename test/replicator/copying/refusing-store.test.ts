/** A store that refuses some writes, as if the disk were almost full, in virtual time. */
import { expect, test, vi } from "vitest";
import type { DatabaseHook } from "../../../src/databases/index.ts";
import { KeyValueError } from "../../../src/kv/index.ts";
import { parseReplication } from "../../../src/replicator/index.ts";
import { openVirtualNode } from "../../support/virtual-node.ts";

const JOE = { userName: "joe", isAdmin: true };
const EVENTS_OF_LOSS = ["replication.abandoned", "replication.halted", "jobs.requeued"];
const FULL = new KeyValueError("KV_UNAVAILABLE", { reason: "the disk is full" });

test("a job stores the reason of its failure once the store accepts writes, and runs again within half a minute after the disk has space", async () => {
  let isFull = false;
  const refusing: DatabaseHook = {
    appliesTo: (database) => database === "copy",
    beforeWrite: async (_tx, _database, edit) => {
      if (isFull) throw FULL;
      return { edit };
    },
  };
  const config = { parkAfterSec: 0, penaltySecMin: 600, penaltySecMax: 1200 };
  const node = openVirtualNode({ config, hooks: [refusing] });
  const { world, names, replicator, jobs } = node;
  const until = async (event: string): Promise<void> => {
    await world.time.run(world.time.nowMs + 600_000, () => names.includes(event));
    expect(names).toContain(event);
  };
  await node.start();
  for (const name of ["films", "copy"]) await node.createDatabase(name);
  await node.put("films", "a", {});
  const asked = parseReplication({ source: "films", target: "copy", continuous: true });
  const id = await world.until(replicator.start(asked, JOE));
  await until("replication.copied");
  names.length = 0;
  isFull = true;
  // The store rejects the first three attempts to record the end of the run.
  const finish = vi.spyOn(jobs, "finish");
  for (let times = 0; times < 3; times++) finish.mockRejectedValueOnce(FULL);
  await node.put("films", "b", {});
  await until("replication.ended");
  expect(finish).toHaveBeenCalledTimes(4);
  const { data } = (await world.until(replicator.find(id))) ?? {};
  expect(data).toMatchObject({
    state: "crashing",
    errorCount: 1,
    failing: {
      class: "storage_full",
      error: "insufficient_storage",
      reason: "The store is unavailable: the disk is full",
      side: "target",
    },
  });
  isFull = false;
  const roomMs = world.time.nowMs;
  await until("replication.copied");
  expect(world.time.nowMs - roomMs).toBeLessThan(35_000);
  expect(names.filter((name) => EVENTS_OF_LOSS.includes(name))).toEqual([]);
  await node.stop();
});

test("a job that cannot write its heartbeats to the store is requeued, and this does not count as a failure", async () => {
  let fails = false;
  const failing: DatabaseHook = {
    appliesTo: (database) => database === "copy",
    beforeWrite: async (_tx, _database, edit) => {
      if (fails) throw new KeyValueError("KV_TIMED_OUT", { timeoutMs: 1000 });
      return { edit };
    },
  };
  const node = openVirtualNode({ config: { parkAfterSec: 0 }, hooks: [failing] });
  const { world, names, replicator } = node;
  const until = async (event: string): Promise<void> => {
    await world.time.run(world.time.nowMs + 600_000, () => names.includes(event));
    expect(names).toContain(event);
  };
  await node.start();
  for (const name of ["films", "copy"]) await node.createDatabase(name);
  await node.put("films", "a", {});
  const asked = parseReplication({ source: "films", target: "copy", continuous: true });
  const id = await world.until(replicator.start(asked, JOE));
  await until("replication.copied");
  names.length = 0;
  fails = true;
  await node.put("films", "b", {});
  await until("replication.abandoned");
  expect(names).not.toContain("replication.ended");
  const { data } = (await world.until(replicator.find(id))) ?? {};
  expect(data).toMatchObject({ errorCount: 0, failing: undefined });
  fails = false;
  await until("replication.copied");
  await node.stop();
});
