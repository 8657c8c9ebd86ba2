/** Closing a store: waiting calls end, pending commits complete, and later calls are refused. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createSystemRuntime, openLmdbEngine } from "../../src/host/index.ts";
import { type Engine, KeyValueStore, MemoryEngine } from "../../src/kv/index.ts";
import { gate, put, read } from "../../src/library/kv-conformance/fixture.ts";

const runtime = createSystemRuntime();

interface Opened {
  readonly engine: Engine;
  remove(): Promise<void>;
}

const engines: Readonly<Record<string, () => Promise<Opened>>> = {
  memory: async () => ({ engine: new MemoryEngine({ runtime }), remove: async () => {} }),
  lmdb: async () => {
    const directory = await mkdtemp(join(tmpdir(), "tandem-kv-"));
    const engine = await openLmdbEngine({ runtime, directory });
    return { engine, remove: () => rm(directory, { recursive: true }) };
  },
};

test.each(Object.keys(engines))("a store on %s closes cleanly", async (name) => {
  const { engine, remove } = await (engines[name] as () => Promise<Opened>)();
  const kv = new KeyValueStore({ runtime, engine });
  const closed = { code: "KV_CLOSED" };
  const watch = await kv.transact(async (tx) => tx.watch(new Uint8Array([1])));
  const watching = expect(watch.fired()).rejects.toMatchObject(closed);
  const held = gate();
  const late: unknown[] = [];
  const ended = gate();
  const running = expect(
    kv.transact(async (tx) => {
      await read(tx, "a");
      await held.opened;
      await read(tx, "a").catch((error) => late.push(error.code));
      ended.open();
    }),
  ).rejects.toMatchObject(closed);
  // The transaction is either committed before the store closes, or reported as not committed.
  const committing = kv
    .transact(async (tx) => put(tx, "b", "1"))
    .catch((error) => expect(error).toMatchObject(closed));
  await kv.close();
  await kv.close();
  await Promise.all([watching, running, committing]);
  held.open();
  await ended.opened;
  expect(late).toEqual(["KV_CLOSED"]);
  await expect(kv.transact(async (tx) => put(tx, "c", "1"))).rejects.toMatchObject(closed);
  await expect(kv.read((tx) => read(tx, "c"))).rejects.toMatchObject(closed);
  expect(() => engine.begin()).toThrow();
  await expect(watch.fired()).rejects.toMatchObject(closed);
  await remove();
});

/** Returns a memory engine whose commits wait for `gated`. */
function heldEngine(gated: Promise<unknown>, onCommit: () => void): Engine {
  const memory = new MemoryEngine({ runtime });
  return {
    name: "held",
    begin() {
      const begun = memory.begin();
      const commit = async () => {
        onCommit();
        await gated;
        return begun.commit();
      };
      return {
        transaction: begun.transaction,
        effects: begun.effects,
        hasWrites: true,
        commit,
        cancel: () => begun.cancel(),
      };
    },
    close: () => memory.close(),
  };
}

/** Returns a clock whose sleeps end when the test calls `wake`. */
function heldClock() {
  const { opened, open } = gate();
  const asked: number[] = [];
  const sleep = (durationMs: number): Promise<void> => {
    asked.push(durationMs);
    return opened;
  };
  return { clock: { ...runtime.clock, sleep }, asked, wake: open };
}

test.each(["commits", "does not answer"])(
  "a closing store waits for its commits, but not indefinitely (the engine %s)",
  async (behaviour) => {
    const held = gate();
    const begun = gate();
    const { clock, asked, wake } = heldClock();
    const engine = heldEngine(held.opened, begun.open);
    const kv = new KeyValueStore({ runtime: { ...runtime, clock }, engine });
    const events: string[] = [];
    const committing = kv
      .transact(async (tx) => put(tx, "a", "1"), { whenUnknown: "retry" })
      .then(() => events.push("committed"));
    await begun.opened;
    const closing = kv.close().then(() => events.push("closed"));
    await new Promise(setImmediate);
    expect([events, asked]).toEqual([[], [3_000]]);
    if (behaviour === "commits") {
      held.open();
      await Promise.all([committing, closing]);
      expect(events).toEqual(["committed", "closed"]);
    } else {
      wake();
      await closing;
      expect(events).toEqual(["closed"]);
      held.open();
      await committing.catch(() => {});
    }
  },
);
