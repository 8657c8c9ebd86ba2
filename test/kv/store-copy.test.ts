/**
 * Copies of a whole store between the embedded engine and a stand-in for a cluster, and between
 * LMDB and a live FoundationDB.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  ClusterCopyTarget,
  type CopySummary,
  type CopyTarget,
  copyStore,
  createSystemRuntime,
  isCopyUnfinished,
  LmdbCopyTarget,
  openFoundationDbEngine,
  openLmdbEngine,
} from "../../src/host/index.ts";
import {
  type KeyValue,
  type KeyValueStore,
  MemoryEngine,
  MemoryStorage,
  Subspace,
  SubspaceEngine,
  Versionstamp,
} from "../../src/kv/index.ts";
import { bytes, clearAll, EVERYTHING } from "../../src/library/kv-conformance/fixture.ts";
import { PlainStore } from "../../src/library/kv-conformance/plain-store.ts";
import { withDirectory } from "../support/with-directory.ts";

const runtime = createSystemRuntime();
const clusterFile = process.env.FDB_CLUSTER_FILE;

async function openLmdb(directory: string): Promise<KeyValueStore> {
  return new PlainStore({ runtime, engine: await openLmdbEngine({ runtime, directory }) });
}

function openMemory(): KeyValueStore {
  return new PlainStore({
    runtime,
    engine: new MemoryEngine({ runtime, storage: new MemoryStorage({ clearsRangesAtOnce: true }) }),
  });
}

/**
 * Writes several pages of rows of all lengths. Each transaction also writes a row whose key ends
 * with the transaction's versionstamp.
 */
async function fill(kv: KeyValueStore): Promise<void> {
  for (let batch = 0; batch < 30; batch++) {
    await kv.transact(async (tx) => {
      for (let row = 0; row < 40; row++) {
        tx.set(bytes(`row-${batch}-${row}`), new Uint8Array(row * 100).fill(batch));
      }
      tx.set(bytes(`${"k".repeat(4_000 + batch)}`), bytes("a long key"));
      tx.setVersionstampedKey(stamped("seq-"), bytes(String(batch)));
    });
  }
}

function stamped(name: string): { readonly bytes: Uint8Array; readonly offset: number } {
  const { bytes: stamp } = Versionstamp.incomplete();
  const prefix = bytes(name);
  return { bytes: new Uint8Array([...prefix, ...stamp]), offset: prefix.length };
}

async function rowsOf(kv: KeyValueStore): Promise<string[]> {
  const { entries } = await kv.read((tx) => tx.getRangePage(EVERYTHING));
  return entries.map(({ key, value }) => Buffer.from(key).toString("hex") + hexOf(value));
}

function hexOf(value: Uint8Array): string {
  return ` ${Buffer.from(value).toString("hex")}`;
}

/** Returns the values of the feed's rows, in order. */
async function sequence(kv: KeyValueStore): Promise<string[]> {
  const range = { begin: bytes("seq-"), end: bytes("seq.") };
  const { entries } = await kv.read((tx) => tx.getRangePage(range));
  return entries.map(({ value }: KeyValue) => Buffer.from(value).toString());
}

async function commitOften(kv: KeyValueStore, count: number): Promise<void> {
  for (let number = 0; number < count; number++) {
    await kv.transact(async (tx) => tx.set(bytes("x"), bytes(String(number))));
  }
  await clearAll(kv);
}

async function copy(source: KeyValueStore, target: CopyTarget): Promise<CopySummary> {
  try {
    return await copyStore({ clock: runtime.clock, source, target, quietMs: 0 });
  } finally {
    await target.close();
  }
}

test("a store is copied to a cluster and back, and later writes follow the copied rows in every feed", async () => {
  await withDirectory(async (directory) => {
    const source = await openLmdb(join(directory, "old"));
    await fill(source);
    const rows = await rowsOf(source);
    const cluster = openMemory();
    await commitOften(cluster, 100);
    const summary = await copy(source, new ClusterCopyTarget(cluster));
    expect(summary).toMatchObject({ rowCount: rows.length });
    expect(await rowsOf(cluster)).toEqual(rows);
    expect(await isCopyUnfinished(cluster)).toBe(false);
    await cluster.transact(async (tx) => tx.setVersionstampedKey(stamped("seq-"), bytes("later")));
    expect((await sequence(cluster)).at(-1)).toBe("later");

    const back = join(directory, "new");
    await copy(cluster, new LmdbCopyTarget(back));
    const returned = await openLmdb(back);
    expect(await rowsOf(returned)).toEqual(await rowsOf(cluster));
    await returned.transact(async (tx) => tx.setVersionstampedKey(stamped("seq-"), bytes("last")));
    expect((await sequence(returned)).slice(-2)).toEqual(["later", "last"]);
    await Promise.all([source.close(), cluster.close(), returned.close()]);
  });
});

test("a cluster with a lower version is refused, and the error contains the command to run", async () => {
  await withDirectory(async (directory) => {
    const source = await openLmdb(directory);
    await fill(source);
    const cluster = openMemory();
    await expect(copy(source, new ClusterCopyTarget(cluster))).rejects.toMatchObject({
      code: "KV_UNAVAILABLE",
      details: {
        reason: expect.stringMatching(
          /^the version 1 of the cluster is below .*advanceversion 3\d'/,
        ),
      },
    });
    expect(await rowsOf(cluster)).toEqual([]);
    await Promise.all([source.close(), cluster.close()]);
  });
});

test.each(["cluster", "folder"])(
  "a copy to a %s that already contains a store is refused, and leaves that store unchanged",
  async (kind) => {
    await withDirectory(async (directory) => {
      const source = openMemory();
      await fill(source);
      const there = kind === "cluster" ? openMemory() : await openLmdb(directory);
      await commitOften(there, 100);
      await there.transact(async (tx) => tx.set(bytes("there"), bytes("before")));
      const target =
        kind === "cluster" ? new ClusterCopyTarget(there) : new LmdbCopyTarget(directory);
      await expect(copy(source, target)).rejects.toMatchObject({
        code: "KV_UNAVAILABLE",
        details: { reason: expect.stringMatching(/already has a store/) },
      });
      expect(await rowsOf(there)).toHaveLength(1);
      await Promise.all([source.close(), there.close()]);
    });
  },
);

test.each(["cluster", "folder"])(
  "a copy to a %s fails if the store is written to during the copy, and leaves nothing at the destination",
  async (kind) => {
    await withDirectory(async (directory) => {
      const source = openMemory();
      await fill(source);
      const cluster = openMemory();
      await commitOften(cluster, 100);
      const target =
        kind === "cluster" ? new ClusterCopyTarget(cluster) : new LmdbCopyTarget(directory);
      const put = target.put.bind(target);
      target.put = async (rows) => {
        await put(rows);
        // Overwrites a row of the first page, without changing the length of its value.
        const value = new Uint8Array(100).fill(rows.length);
        await source.transact(async (tx) => tx.set(bytes("row-0-1"), value));
      };
      await expect(copy(source, target)).rejects.toMatchObject({
        code: "KV_UNAVAILABLE",
        details: { reason: expect.stringContaining("stop all its nodes first") },
      });
      expect(await rowsOf(cluster)).toEqual([]);
      expect(existsSync(join(directory, "data.mdb"))).toBe(false);
      await Promise.all([source.close(), cluster.close()]);
    });
  },
);

test("a copy that lacks a row is detected before the copy can be used", async () => {
  const source = openMemory();
  await fill(source);
  const cluster = openMemory();
  await commitOften(cluster, 100);
  const target = new ClusterCopyTarget(cluster);
  const put = target.put.bind(target);
  let isFirst = true;
  target.put = (rows) => {
    const kept = isFirst ? rows.slice(1) : rows;
    isFirst = false;
    return put(kept);
  };
  await expect(copy(source, target)).rejects.toMatchObject({
    details: { reason: expect.stringContaining("copy the store again") },
  });
  expect(await rowsOf(cluster)).toEqual([]);
  await Promise.all([source.close(), cluster.close()]);
});

test("an unfinished copy is detected, and a new copy replaces it", async () => {
  const source = openMemory();
  await fill(source);
  const cluster = openMemory();
  await commitOften(cluster, 100);
  const cutOff = new ClusterCopyTarget(cluster);
  await cutOff.begin(1);
  await cutOff.put([{ key: bytes("left"), value: bytes("behind") }]);
  expect(await isCopyUnfinished(cluster)).toBe(true);
  await copy(source, new ClusterCopyTarget(cluster));
  expect(await isCopyUnfinished(cluster)).toBe(false);
  expect(await rowsOf(cluster)).toEqual(await rowsOf(source));
  await Promise.all([source.close(), cluster.close()]);
});

test.skipIf(clusterFile === undefined)(
  "a store is copied from LMDB to a live FoundationDB and back",
  async () => {
    await withDirectory(async (directory) => {
      const engine = await openFoundationDbEngine({ runtime, clusterFile });
      const { prefix } = Subspace.fromTuple(["tandem test", process.pid, Date.now()]);
      const cluster = new PlainStore({ runtime, engine: new SubspaceEngine(engine, prefix) });
      const source = await openLmdb(join(directory, "old"));
      await fill(source);
      await copy(source, new ClusterCopyTarget(cluster));
      await cluster.transact(async (tx) =>
        tx.setVersionstampedKey(stamped("seq-"), bytes("later")),
      );
      const back = join(directory, "new");
      await copy(cluster, new LmdbCopyTarget(back));
      const returned = await openLmdb(back);
      await returned.transact(async (tx) =>
        tx.setVersionstampedKey(stamped("seq-"), bytes("last")),
      );
      const feed = Array.from({ length: 30 }, (_, batch) => String(batch));
      expect(await sequence(returned)).toEqual([...feed, "later", "last"]);
      await clearAll(cluster);
      await Promise.all([source.close(), cluster.close(), returned.close()]);
    });
  },
);
