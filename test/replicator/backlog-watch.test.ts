/** The sources of jobs that wait are asked how much is to come: seldom, a few at once, and by one of the nodes. In virtual time. */
import { expect, test } from "vitest";
import { parseReplication } from "../../src/replicator/index.ts";
import { openVirtualNode } from "../support/virtual-node.ts";

const JOE = { userName: "joe", isAdmin: true };
const JOBS = 45;

/** Two nodes with jobs of which none runs: both look after them. */
async function open() {
  const first = openVirtualNode({});
  const { world, replicator } = first;
  const second = openVirtualNode({ world });
  await first.start({ runsJobs: false });
  await first.createDatabase("a");
  const ids: string[] = [];
  for (let n = 0; n < JOBS; n++) {
    const replication = parseReplication({ source: "a", target: `t${n}`, continuous: true });
    ids.push(await world.until(replicator.start(replication, JOE)));
  }
  const askedAtMs: number[] = [];
  world.listeners.push((name) => {
    if (name === "replication.backlog-asked") askedAtMs.push(world.time.nowMs);
  });
  const stopping = new AbortController();
  const watching = [first, second].map(({ backlogWatch }) => backlogWatch.run(stopping.signal));
  return {
    ...first,
    ids,
    askedAtMs,
    pass: (durationSec: number) => world.time.run(world.time.nowMs + durationSec * 1000),
    measure: async (id: string) => {
      const entry = await world.until(replicator.find(id));
      if (entry === undefined) throw new Error("The job is there");
      return (await world.until(replicator.measures.of([entry])))[0];
    },
    async close(): Promise<void> {
      stopping.abort(new Error("The test is over"));
      await world.until(Promise.all(watching));
      await first.stop();
    },
  };
}

test("each job is asked about once in a round, by all nodes together, and few at a time", async () => {
  const node = await open();
  await node.pass(58);
  expect(node.askedAtMs.length).toBe(JOBS);
  const [firstMs = 0] = node.askedAtMs;
  expect((node.askedAtMs.at(-1) ?? 0) - firstMs).toBeGreaterThanOrEqual(3600);
  await node.pass(60);
  expect(node.askedAtMs.length).toBe(2 * JOBS);
  await node.close();
});

test("a job that waits is behind since its source first said so, until it says that nothing is to come", async () => {
  const node = await open();
  const id = node.ids[0] as string;
  await node.pass(30);
  expect(await node.measure(id)).toMatchObject({ lagSec: 0, pending: 0, heldBackBy: "slot" });
  await node.put("a", "one", {});
  await node.put("a", "two", {});
  await node.pass(60);
  const behind = await node.measure(id);
  expect(behind?.pending).toBe(2);
  await node.put("a", "three", {});
  await node.pass(120);
  const later = await node.measure(id);
  expect(later?.pending).toBe(3);
  expect(later?.behindSinceMs).toBe(behind?.behindSinceMs);
  expect((later?.lagSec ?? 0) - (behind?.lagSec ?? 0)).toBeGreaterThanOrEqual(120);
  await node.close();
});

test("a paused job is asked about, and one that has ended is not", async () => {
  const node = await open();
  const [paused, cancelled] = node.ids as [string, string];
  await node.world.until(node.replicator.commands.pause(paused, { userName: null }));
  await node.world.until(node.replicator.commands.cancel(cancelled, { userName: null }));
  await node.put("a", "one", {});
  await node.pass(58);
  expect(node.askedAtMs.length).toBe(JOBS - 1);
  expect(await node.measure(paused)).toMatchObject({ pending: 1, heldBackBy: "paused" });
  await node.close();
});
