/**
 * Polling the sources of waiting jobs for pending changes: rarely, a few jobs at a time, and by one
 * node for the whole cluster. In virtual time.
 */
import { expect, test, vi } from "vitest";
import { Jobs } from "../../src/jobs/index.ts";
import { parseReplication, REPLICATION_JOB_TYPE } from "../../src/replicator/index.ts";
import { LOCAL_SOURCE } from "../../src/replicator/request/watched-place.ts";
import { openVirtualNode } from "../support/virtual-node.ts";

const JOE = { userName: "joe", isAdmin: true };
const JOBS = 45;

/** Opens three nodes whose backlog watches run concurrently. No node runs jobs. */
async function open() {
  const first = openVirtualNode({});
  const { world, replicator } = first;
  const nodes = [first, openVirtualNode({ world }), openVirtualNode({ world })];
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
  const watchers = nodes.map(({ jobs, simulated, backlogWatch }) => {
    const stopping = new AbortController();
    const running = backlogWatch.run(stopping.signal);
    return {
      jobs,
      simulated,
      /** Spy on the node's scans for jobs to poll. */
      check: vi.spyOn(jobs, "schedules"),
      stop(): Promise<void> {
        stopping.abort(new Error("The test is over"));
        return Promise.race([running, simulated.crashed]);
      },
    };
  });
  return {
    ...first,
    ids,
    askedAtMs,
    watchers,
    pass: (durationSec: number) => world.time.run(world.time.nowMs + durationSec * 1000),
    measure: async (id: string) => {
      const entry = await world.until(replicator.find(id));
      if (entry === undefined) throw new Error("The job is there");
      return (await world.until(replicator.measures.of([entry])))[0];
    },
    async close(): Promise<void> {
      await world.until(Promise.all(watchers.map((watcher) => watcher.stop())));
      await first.stop();
    },
  };
}

test("together, the nodes poll each job once per round, a few jobs at a time", async () => {
  const node = await open();
  await node.pass(58);
  expect(node.askedAtMs.length).toBe(JOBS);
  const [firstMs = 0] = node.askedAtMs;
  expect((node.askedAtMs.at(-1) ?? 0) - firstMs).toBeGreaterThanOrEqual(3600);
  await node.pass(60);
  expect(node.askedAtMs.length).toBe(2 * JOBS);
  await node.close();
});

test("a waiting job has a lag from its first pending change until its source reports no pending changes", async () => {
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

test("paused jobs are polled, and ended jobs are not", async () => {
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

test("a job that waits for other jobs has no lag, and is polled once it is allowed to start", async () => {
  const node = await open();
  const { replicator, world } = node;
  const members = { source: "a", target: "late", continuous: true, after: "_replicator/first" };
  const id = await world.until(replicator.start(parseReplication(members), JOE));
  await node.put("a", "one", {});
  await node.pass(58);
  expect(node.askedAtMs.length).toBe(JOBS);
  const none = { lagSec: null, pending: null, behindSinceMs: undefined };
  expect(await node.measure(id)).toMatchObject({ ...none, heldBackBy: "after" });
  const unknown = async () => {
    const page = await world.until(replicator.lists.page({ filter: { unknown: true }, limit: 9 }));
    return page.entries.map(({ jobId }) => jobId);
  };
  expect(await unknown()).toEqual([]);
  await world.until(replicator.commands.retry(id, { userName: null }));
  expect(await unknown()).toEqual([id]);
  await node.pass(120);
  expect(await node.measure(id)).toMatchObject({ pending: 1, heldBackBy: "slot" });
  await node.close();
});

test("only one node scans for jobs at a time, even if the store is slow", async () => {
  const node = await open();
  for (const { jobs, simulated, check } of node.watchers) {
    check.mockImplementation(async (...args) => {
      await simulated.runtime.clock.sleep(3000);
      return Jobs.prototype.schedules.apply(jobs, args);
    });
  }
  await node.pass(58);
  // Each scan returns ten jobs.
  const checkCount = node.watchers.reduce((sum, { check }) => sum + check.mock.calls.length, 0);
  expect(checkCount).toBe(Math.ceil(JOBS / 10));
  await node.close();
});

test("parked jobs are neither polled nor read", async () => {
  const node = await open();
  const parkedIds = node.ids.filter((_, index) => index % 3 !== 0);
  const database = await node.world.until(
    node.kv.read((tx) => node.databases.open(tx, "a")).then(({ uuid }) => uuid),
  );
  await node.world.until(
    node.kv.transact(async (tx) => {
      for (const jobId of parkedIds) {
        const place = { source: LOCAL_SOURCE, database };
        await node.parked.add(tx, jobId, [{ ...place, labels: [], updateSequence: "0" }]);
      }
    }),
  );
  const reads = node.watchers.map(({ jobs }) => vi.spyOn(jobs, "getMany"));
  await node.pass(58);
  expect(node.askedAtMs.length).toBe(JOBS - parkedIds.length);
  const readIds = new Set(reads.flatMap(({ mock }) => mock.calls.flatMap(([, , ids]) => ids)));
  expect(readIds.size).toBe(JOBS - parkedIds.length);
  expect(parkedIds.filter((id) => readIds.has(id))).toEqual([]);
  await node.close();
});

test("a scan that finds no job to poll stops after a hundred jobs, and reads them twenty at a time", async () => {
  const node = await open();
  await node.world.until(
    node.kv.transact(async (tx) => {
      for (let n = 0; n < 250; n++) {
        // The job's data is empty, so that no version can decode it.
        await node.jobs.add(tx, { type: REPLICATION_JOB_TYPE, id: `unreadable ${n}` }, {});
      }
    }),
  );
  const counts: number[] = [];
  for (const { jobs, check } of node.watchers) {
    check.mockImplementation((...args) => {
      counts.push(0);
      return Jobs.prototype.schedules.apply(jobs, args);
    });
    vi.spyOn(jobs, "getMany").mockImplementation((...args) => {
      const [, , ids] = args;
      expect(ids.length).toBeLessThanOrEqual(20);
      counts.push((counts.pop() ?? 0) + ids.length);
      return Jobs.prototype.getMany.apply(jobs, args);
    });
  }
  await node.pass(58);
  expect(node.askedAtMs.length).toBe(JOBS);
  expect(Math.max(...counts)).toBe(100);
  await node.close();
});

test("another node takes over if the scanning node dies", async () => {
  const node = await open();
  let hasDied = false;
  for (const { jobs, simulated, check } of node.watchers.slice(1)) {
    check.mockImplementation((...args) => {
      if (!hasDied) simulated.crash();
      hasDied = true;
      return Jobs.prototype.schedules.apply(jobs, args);
    });
  }
  // Stops the first watcher, so that only two watchers remain: the one that dies and the one that
  // takes over.
  await node.world.until(node.watchers[0]?.stop() as Promise<void>);
  await node.pass(58);
  expect(hasDied).toBe(true);
  expect(node.askedAtMs.length).toBe(JOBS);
  await node.close();
});

test.each(["source", "target"] as const)(
  "a job that fails because of its %s has a known lag only if the source can be read",
  async (side) => {
    const node = openVirtualNode({});
    const { world, replicator, kv, databases } = node;
    await node.start();
    for (const name of ["a", "b"]) await node.createDatabase(name);
    await node.put("a", "one", {});
    const replication = parseReplication({ source: "a", target: "b", continuous: true });
    const id = await world.until(replicator.start(replication, JOE));
    const caughtUp = async (): Promise<number> => {
      const page = { filter: { isCaughtUp: true }, limit: 9 } as const;
      return (await world.until(replicator.lists.page(page))).entries.length;
    };
    const once = async (isReached: (isFailing: boolean, lagSec: number | null) => boolean) => {
      for (;;) {
        await world.time.run(world.time.nowMs + 500);
        const entry = await world.until(replicator.find(id));
        if (entry === undefined) throw new Error("The job is there");
        const [measure] = await world.until(replicator.measures.of([entry]));
        const { lagSec = null, pending } = measure ?? {};
        if (isReached(entry.data.failing !== undefined, lagSec)) return { lagSec, pending };
      }
    };
    const known = { lagSec: 0, pending: 0 };
    expect(await once((_, lagSec) => lagSec !== null)).toEqual(known);
    expect(await caughtUp()).toBe(1);
    const removed = side === "source" ? "a" : "b";
    await world.until(kv.transact((tx) => databases.remove(tx, removed)));
    const isKnown = side === "target";
    expect(await once((isFailing) => isFailing)).toEqual(
      isKnown ? known : { lagSec: null, pending: null },
    );
    expect(await caughtUp()).toBe(isKnown ? 1 : 0);
    await node.createDatabase(removed);
    expect(await once((isFailing, lagSec) => lagSec !== null || !isFailing)).toEqual(known);
    await node.stop();
  },
);
