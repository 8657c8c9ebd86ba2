/** Starting a node, copying a store and backing it up each check the whole store. */
import { expect, test } from "vitest";
import { utf8Encode } from "../../src/base/index.ts";
import { ClusterCopyTarget, createSystemRuntime } from "../../src/host/index.ts";
import { Workers } from "../../src/jobs/index.ts";
import {
  type Engine,
  type EngineTransaction,
  type KeyValue,
  type KeyValueStore,
  MemoryEngine,
} from "../../src/kv/index.ts";
import { EVERYTHING } from "../../src/library/kv-conformance/fixture.ts";
import { PlainStore } from "../../src/library/kv-conformance/plain-store.ts";
import { Formats } from "../../src/server/formats.ts";
import { LAYOUT_KEY, SUBSPACES } from "../../src/server/layout.ts";
import { checkOpenedStore, copyWholeStore, StoreRowsCheck } from "../../src/server/whole-store.ts";

const runtime = createSystemRuntime();

function openStore(): PlainStore {
  return new PlainStore({ runtime, engine: new MemoryEngine({ runtime }) });
}

async function rowsOf(kv: KeyValueStore): Promise<readonly KeyValue[]> {
  return (await kv.read((tx) => tx.getRangePage(EVERYTHING))).entries;
}

/**
 * Every way to open or copy a store. Each returns if it accepts the store, and otherwise throws an
 * error.
 */
const ENTRANCES = {
  "a start": (kv: KeyValueStore) => checkOpenedStore(kv, "here"),
  "a copy": async (kv: KeyValueStore) => {
    const cluster = openStore();
    const target = new ClusterCopyTarget(cluster);
    // Skips the check that the cluster is empty and has a higher version than the store.
    target.begin = async () => {};
    await copyWholeStore({
      clock: runtime.clock,
      source: kv,
      sourcePlace: "here",
      target,
      quietMs: 0,
    });
  },
  "a backup": async (kv: KeyValueStore) => {
    for (const _ of new StoreRowsCheck("here").pages([await rowsOf(kv)]));
  },
};

const entrances = Object.entries(ENTRANCES);
const readers = entrances.filter(([name]) => name !== "a start");

test.each(entrances)("%s accepts the store that a node has written", async (_, enter) => {
  const kv = openStore();
  const workers = new Workers(runtime, SUBSPACES.jobs);
  await new Formats({ runtime, kv, workers, enablesAlone: true }).join();
  await enter(kv);
});

test.each(entrances)("%s refuses a store that contains a truncated copy", async (_, enter) => {
  const kv = openStore();
  const cutOff = new ClusterCopyTarget(kv);
  await cutOff.begin(0);
  await cutOff.put([{ key: LAYOUT_KEY, value: utf8Encode("2") }]);
  await expect(enter(kv)).rejects.toMatchObject({
    code: "KV_UNAVAILABLE",
    details: { reason: expect.stringMatching(/^here contains an unfinished copy.*repeat/) },
  });
});

test.each(entrances)("%s refuses the store of a newer version of the program", async (_, enter) => {
  const kv = openStore();
  await kv.transact(async (tx) => tx.set(LAYOUT_KEY, utf8Encode("99")));
  await expect(enter(kv)).rejects.toMatchObject({
    code: "KV_UNUSABLE",
    details: { reason: expect.stringContaining("the store has format 99") },
  });
});

test.each(readers)(
  "%s refuses an empty store, and a store with rows of another program",
  async (_, enter) => {
    const refusal = {
      code: "KV_UNAVAILABLE",
      details: { reason: expect.stringMatching(/^here contains no Tandem store.*prefix/) },
    };
    const kv = openStore();
    await expect(enter(kv)).rejects.toMatchObject(refusal);
    await kv.transact(async (tx) => tx.set(utf8Encode("other"), utf8Encode("row")));
    await expect(enter(kv)).rejects.toMatchObject(refusal);
  },
);

test.each(entrances.filter(([name]) => name !== "a backup"))(
  "%s names the cluster file in the error if the cluster is unreachable",
  async (_, enter) => {
    const clock = {
      ...runtime.clock,
      nowMs: () => 0,
      monotonicMs: () => 0,
      // All time limits expire immediately.
      sleep: async () => {},
    };
    const kv = new PlainStore({ runtime: { ...runtime, clock }, engine: silentEngine() });
    await expect(enter(kv)).rejects.toMatchObject({
      code: "KV_UNAVAILABLE",
      details: { reason: expect.stringMatching(/^here did not respond within 20 s/) },
    });
  },
);

/** Returns the engine of an unreachable cluster, whose reads wait indefinitely. */
function silentEngine(): Engine {
  const get = () => new Promise<never>(() => {});
  const snapshot = { get };
  const transaction = { transaction: { get, snapshot }, effects: [], cancel: () => {} };
  return {
    name: "silent",
    begin: () => transaction as unknown as EngineTransaction,
    close: async () => {},
  };
}
