/**
 * The log of job events: thinning, deletion, and notices to consumers that have missed events.
 */
import { afterEach, expect, test } from "vitest";
import { createSystemRuntime } from "../../../src/host/index.ts";
import { KeyValueStore, MemoryEngine, Subspace } from "../../../src/kv/index.ts";
import { JobEventLog } from "../../../src/replicator/index.ts";
import { encodeStatus, type JobStatus } from "../../../src/replicator/jobs/job-status.ts";
import { composeNode } from "../../support/compose-node.ts";

const STATUS: JobStatus = {
  outcome: "pending",
  isPaused: false,
  isAwaiting: false,
  failing: undefined,
  hasLeftBehind: false,
  isStalled: false,
  replicationId: undefined,
  endedMs: undefined,
  behindSinceMs: undefined,
  isUnread: false,
  owner: null,
  source: [],
  target: [],
  tags: [],
};
/** A size limit that no test reaches. */
const NO_LIMIT = Number.MAX_SAFE_INTEGER;

const stores: KeyValueStore[] = [];
afterEach(async () => {
  for (const kv of stores.splice(0)) await kv.close();
});

function open() {
  const system = createSystemRuntime();
  let nowMs = 0;
  const clock = { ...system.clock, nowMs: () => nowMs };
  const runtime = { ...system, clock };
  const kv = new KeyValueStore({ runtime, engine: new MemoryEngine({ runtime }) });
  stores.push(kv);
  const log = new JobEventLog(clock, Subspace.fromTuple(["replicator"]));
  return {
    log,
    kv,
    note: (jobId: string, atMs: number, type: "started" | "crashed" = "started") => {
      nowMs = atMs;
      return kv.transact(async (tx) => log.noteRun(tx, jobId, [{ type }]));
    },
    remove: (jobId: string, atMs: number) => {
      nowMs = atMs;
      return kv.transact(async (tx) => {
        const encodedBefore = encodeStatus(STATUS);
        log.noteFormer(tx, jobId, {
          name: `db/${jobId}`,
          rule: undefined,
          status: encodedBefore,
        });
        const change = { jobId, before: STATUS, after: undefined };
        log.noteStatus(tx, { ...change, encodedBefore, encodedAfter: undefined });
      });
    },
    past: async () => {
      const { events } = await kv.read((tx) => log.past(tx, undefined, 100));
      return events.map(({ jobId, changes }) => `${jobId} ${changes.join()}`).toReversed();
    },
    former: async (...ids: string[]) => {
      const jobs = await kv.read((tx) => log.formerJobs(tx, ids));
      return [...jobs.values()].map(({ name }) => name);
    },
    formerStatus: async (status: JobStatus | undefined) => {
      const encoded = status && encodeStatus(status);
      await kv.transact(async (tx) =>
        log.noteFormer(tx, "a", { name: "db/a", rule: undefined, status: encoded }),
      );
      return (await kv.read((tx) => log.formerJobs(tx, ["a"]))).get("a")?.status;
    },
    fold: () => kv.transact(async (tx) => log.setFoldedId(tx, await log.lastId(tx))),
    jobsBehind: async (id: string) => {
      const { events, forgottenId } = await kv.read((tx) => log.page(tx, id, 100));
      return { ids: events.map(({ jobId }) => jobId), forgottenId };
    },
  };
}

test("routine events are removed from the log, and a consumer that missed some of them is notified", async () => {
  const { kv, log, note, fold, jobsBehind } = open();
  const begin = await kv.read((tx) => log.lastId(tx));
  await note("a", 1000);
  const behindA = await kv.read((tx) => log.lastId(tx));
  await note("b", 2000);
  const behindB = await kv.read((tx) => log.lastId(tx));
  await note("c", 3000);
  expect(await jobsBehind(begin)).toEqual({ ids: ["a", "b", "c"], forgottenId: undefined });
  await fold();
  expect(await kv.transact((tx) => log.thin(tx, 2500))).toBe(false);
  expect(await jobsBehind(begin)).toEqual({ ids: ["c"], forgottenId: behindB });
  expect(await jobsBehind(behindA)).toEqual({ ids: ["c"], forgottenId: behindB });
  expect(await jobsBehind(behindB)).toEqual({ ids: ["c"], forgottenId: undefined });
});

test("removing many routine events takes several transactions", async () => {
  const { kv, log, fold, jobsBehind } = open();
  const begin = await kv.read((tx) => log.lastId(tx));
  await kv.transact(async (tx) => {
    for (let number = 0; number < 1500; number++) log.noteRun(tx, "a", [{ type: "started" }]);
  });
  await fold();
  expect(await kv.transact((tx) => log.thin(tx, 1))).toBe(true);
  expect(await kv.transact((tx) => log.thin(tx, 1))).toBe(false);
  expect((await jobsBehind(begin)).ids).toEqual([]);
});

test("events that have not yet been applied to the job lists are kept even if they are old", async () => {
  const { kv, log, note, fold, jobsBehind } = open();
  const begin = await kv.read((tx) => log.lastId(tx));
  await note("a", 1000);
  await fold();
  await note("b", 1000);
  expect(await kv.transact((tx) => log.thin(tx, 5000))).toBe(false);
  expect((await jobsBehind(begin)).ids).toEqual(["b"]);
});

test("thinning the log keeps the events of failures and removals", async () => {
  const { kv, log, note, remove, fold, past } = open();
  await note("a", 1000);
  await note("a", 1000, "crashed");
  await remove("a", 1000);
  await note("b", 9000);
  await fold();
  await kv.transact((tx) => log.thin(tx, 5000));
  expect(await past()).toEqual(["a crashed", "a removed", "b started"]);
});

test("old events are deleted once the log has been thinned up to them", async () => {
  const { kv, log, note, fold, past } = open();
  await note("a", 1000, "crashed");
  await note("b", 2000, "crashed");
  await note("c", 3000, "crashed");
  await fold();
  await kv.transact((tx) => log.thin(tx, 2500));
  expect(await kv.transact((tx) => log.forget(tx, 1500, NO_LIMIT))).toBe(false);
  expect(await past()).toEqual(["b crashed", "c crashed"]);
  // The event of `c` is kept, because the log has been thinned only up to 2500.
  await kv.transact((tx) => log.forget(tx, 9000, NO_LIMIT));
  expect(await past()).toEqual(["c crashed"]);
});

test("the oldest events are deleted first if the log exceeds its size limit", async () => {
  const { kv, log, note, fold, past } = open();
  const sizes: number[] = [];
  for (let number = 0; number < 40; number++) {
    await note(`job-${number % 10}`, 1000 + number, "crashed");
    for (let quiet = 0; quiet < 5; quiet++) await note("quiet", 1000 + number);
    await fold();
    await kv.transact((tx) => log.thin(tx, 5000));
    while (await kv.transact((tx) => log.forget(tx, 0, 1000)));
    sizes.push((await past()).length);
  }
  const [last] = sizes.slice(-1);
  expect(last).toBeLessThan(40);
  expect(sizes.slice(-20)).toEqual(Array.from({ length: 20 }, () => last));
  expect((await past()).at(-1)).toBe("job-9 crashed");
  expect(await past()).not.toContain("quiet started");
});

test("a removed job's name is kept until the event of the job's removal is deleted", async () => {
  const { kv, log, note, remove, fold, past, former } = open();
  await remove("a", 1000);
  await remove("b", 2000);
  await note("a", 3000, "crashed");
  await remove("a", 4000);
  await fold();
  await kv.transact((tx) => log.thin(tx, 9000));
  await kv.transact((tx) => log.forget(tx, 2500, NO_LIMIT));
  expect(await past()).toEqual(["a crashed", "a removed"]);
  expect(await former("a", "b")).toEqual(["db/a"]);
  await kv.transact((tx) => log.forget(tx, 9000, NO_LIMIT));
  expect(await former("a", "b")).toEqual([]);
});

test("reading a page of events checks a bounded number of events, even if no event matches the filter", async () => {
  const runtime = createSystemRuntime();
  const kv = new KeyValueStore({ runtime, engine: new MemoryEngine({ runtime }) });
  stores.push(kv);
  const node = composeNode({ runtime, kv });
  await kv.transact(async (tx) => {
    for (let number = 0; number < 1500; number++)
      node.events.noteRun(tx, "a", [{ type: "crashed" }]);
  });
  const { events } = node.replicator;
  const first = await events.past(undefined, 10, { kinds: ["removed"] });
  expect(first.events).toEqual([]);
  expect(first.before).toMatch(/^[0-9a-f]{24}$/);
  expect(await events.past(first.before, 10, { kinds: ["removed"] })).toEqual({
    events: [],
    before: undefined,
  });
});

test("a removed job is no longer behind, and might have no status", async () => {
  const { formerStatus } = open();
  const pending = {
    ...STATUS,
    owner: "jan",
    hasLeftBehind: true,
    behindSinceMs: 5,
    isUnread: true,
  };
  expect(await formerStatus(pending)).toEqual({ ...STATUS, owner: "jan" });
  expect(await formerStatus(undefined)).toBeUndefined();
});
