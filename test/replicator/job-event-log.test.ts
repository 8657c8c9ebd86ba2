/** The log of job events: deletion of old events, and notice to consumers that missed some. */
import { afterEach, expect, test } from "vitest";
import { createSystemRuntime } from "../../src/host/index.ts";
import { KeyValueStore, MemoryEngine, Subspace } from "../../src/kv/index.ts";
import { JobEventLog } from "../../src/replicator/index.ts";

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
    note: (jobId: string, atMs: number) => {
      nowMs = atMs;
      return kv.transact(async (tx) => log.noteRun(tx, jobId, [{ type: "started" }]));
    },
    fold: () => kv.transact(async (tx) => log.setFoldedId(tx, await log.lastId(tx))),
    jobsBehind: async (id: string) => {
      const { events, forgottenId } = await kv.read((tx) => log.page(tx, id, 100));
      return { ids: events.map(({ jobId }) => jobId), forgottenId };
    },
  };
}

test("old events are deleted, and a consumer that missed some is notified", async () => {
  const { kv, log, note, fold, jobsBehind } = open();
  const begin = await kv.read((tx) => log.lastId(tx));
  await note("a", 1000);
  const behindA = await kv.read((tx) => log.lastId(tx));
  await note("b", 2000);
  const behindB = await kv.read((tx) => log.lastId(tx));
  await note("c", 3000);
  expect(await jobsBehind(begin)).toEqual({ ids: ["a", "b", "c"], forgottenId: undefined });
  await fold();
  expect(await kv.transact((tx) => log.forget(tx, 2500))).toBe(false);
  expect(await jobsBehind(begin)).toEqual({ ids: ["c"], forgottenId: behindB });
  expect(await jobsBehind(behindA)).toEqual({ ids: ["c"], forgottenId: behindB });
  expect(await jobsBehind(behindB)).toEqual({ ids: ["c"], forgottenId: undefined });
});

test("many old events are deleted in several transactions", async () => {
  const { kv, log, fold, jobsBehind } = open();
  const begin = await kv.read((tx) => log.lastId(tx));
  await kv.transact(async (tx) => {
    for (let number = 0; number < 1500; number++) log.noteRun(tx, "a", [{ type: "started" }]);
  });
  await fold();
  expect(await kv.transact((tx) => log.forget(tx, 1))).toBe(true);
  expect(await kv.transact((tx) => log.forget(tx, 1))).toBe(false);
  expect((await jobsBehind(begin)).ids).toEqual([]);
});

test("events that the job lists do not contain yet are kept, however old", async () => {
  const { kv, log, note, fold, jobsBehind } = open();
  const begin = await kv.read((tx) => log.lastId(tx));
  await note("a", 1000);
  await fold();
  await note("b", 1000);
  expect(await kv.transact((tx) => log.forget(tx, 5000))).toBe(false);
  expect((await jobsBehind(begin)).ids).toEqual(["b"]);
});
