import { expect, test } from "vitest";
import { concatBytes, utf8Encode } from "../../src/base/index.ts";
import {
  CLEARED_KEYS_MAX,
  KeyValueStore,
  listRemovals,
  MemoryEngine,
  MemoryStorage,
  NET_CLEARED_KEYS_MAX,
  type ReadTransaction,
  Remover,
  removeInBackground,
  Subspace,
  type Transaction,
} from "../../src/kv/index.ts";
import type { NodeTraits, SimulatedNode } from "../simulation/kernel/simulated-node.ts";
import { World } from "../simulation/kernel/world.ts";

const KEY_COUNT = 5 * CLEARED_KEYS_MAX;
const OLD = Subspace.fromTuple(["films", "instance-1"]);
const NEW = Subspace.fromTuple(["films", "instance-2"]);
const OTHER = Subspace.fromTuple(["films", "instance-0"]);
const ORIGIN = { kind: "database", subject: "films", nowMs: 0 } as const;

function openCluster(seed: string, nodeCount = 1, traits: Partial<NodeTraits> = {}) {
  const world = new World(seed);
  const nodes = Array.from({ length: nodeCount }, () => world.openNode(traits));
  const stopping = new AbortController();
  const ended: Promise<void>[] = [];
  const pages: { readonly node: string; readonly keyCount: number }[] = [];
  const finished: Readonly<Record<string, unknown>>[] = [];
  world.listeners.push((name, fields, node) => {
    if (name === "kv.page-removed") pages.push({ node, keyCount: Number(fields.keyCount) });
    if (name === "kv.removed") finished.push(fields);
  });
  const start = (node: SimulatedNode): void => {
    const remover = new Remover({ runtime: node.runtime, kv: node.kv, node: node.name });
    ended.push(remover.run(stopping.signal).catch(() => {}));
  };
  const [first] = nodes as [SimulatedNode];
  return {
    world,
    nodes,
    pages,
    finished,
    start,
    async stop(): Promise<void> {
      stopping.abort(new Error("The test is over"));
      const alive = ended.filter((_, index) => nodes[index]?.isCrashed !== true);
      await world.until(Promise.all(alive));
    },
    write: (body: (tx: Transaction) => void, node = first) =>
      world.until(node.kv.transact(async (tx) => body(tx))),
    read: <T>(body: (tx: ReadTransaction) => Promise<T>, node = nodes.at(-1) as SimulatedNode) =>
      world.until(node.kv.read(body)),
    async fill(subspace: Subspace, count: number): Promise<void> {
      for (let from = 0; from < count; from += 1_000) {
        await this.write((tx) => {
          const numbers = Array.from(
            { length: Math.min(1_000, count - from) },
            (_, at) => from + at,
          );
          for (const number of numbers) tx.set(subspace.pack([number]), utf8Encode(`${number}`));
        });
      }
    },
    async count(subspace: Subspace): Promise<number> {
      return (await this.read((tx) => tx.getRangePage(subspace.range()))).entries.length;
    },
    async untilRemoved(): Promise<void> {
      const { time } = world;
      const deadlineMs = time.nowMs + 60_000;
      while ((await this.read((tx) => listRemovals(tx, 1))).length > 0) {
        if (time.nowMs > deadlineMs) throw new Error("The removal does not end");
        await time.run(time.nowMs + 100);
      }
    },
  };
}

async function drop(cluster: ReturnType<typeof openCluster>): Promise<void> {
  await cluster.write((tx) => removeInBackground(tx, OLD.range(), ORIGIN));
}

test("a range is removed in pages of bounded size, and the adjacent range and the range that replaces it are kept", async () => {
  const cluster = openCluster("pages");
  await cluster.fill(OTHER, 10);
  await cluster.fill(OLD, KEY_COUNT);
  await drop(cluster);
  await cluster.fill(NEW, 10);
  cluster.start(cluster.nodes[0] as SimulatedNode);
  await cluster.untilRemoved();
  expect(await cluster.count(OLD)).toBe(0);
  expect(await cluster.count(OTHER)).toBe(10);
  expect(await cluster.count(NEW)).toBe(10);
  expect(Math.max(...cluster.pages.map(({ keyCount }) => keyCount))).toBe(500);
  expect(cluster.finished).toMatchObject([{ subject: "films", keyCount: KEY_COUNT }]);
  await cluster.stop();
});

test("a page ends before its maximum number of keys if their values are large", async () => {
  const cluster = openCluster("bytes");
  const value = new Uint8Array(90_000);
  for (let number = 0; number < 50; number++) {
    await cluster.write((tx) => tx.set(OLD.pack([number]), value));
  }
  await drop(cluster);
  cluster.start(cluster.nodes[0] as SimulatedNode);
  await cluster.untilRemoved();
  expect(await cluster.count(OLD)).toBe(0);
  expect(cluster.pages.length).toBeGreaterThan(3);
  await cluster.stop();
});

test("the memory engine refuses a transaction that clears a range of more than CLEARED_KEYS_MAX keys", async () => {
  const cluster = openCluster("bound");
  await cluster.fill(OLD, CLEARED_KEYS_MAX + 1);
  await expect(cluster.write((tx) => tx.clearRange(OLD.range()))).rejects.toThrow(
    "must not clear a range of more",
  );
});

test("the memory engine refuses a transaction that clears more than NET_CLEARED_KEYS_MAX keys one by one", async () => {
  const cluster = openCluster("net bound");
  const count = NET_CLEARED_KEYS_MAX + 1;
  await cluster.fill(OLD, count);
  const clearAll = (tx: Transaction) => {
    for (let number = 0; number < count; number++) tx.clear(OLD.pack([number]));
  };
  await expect(cluster.write(clearAll)).rejects.toThrow("maximum number of keys");
});

test("transaction ids left by crashed processes are cleared after a day, in pages", async () => {
  const cluster = openCluster("ids", 1);
  const ids = new Subspace(concatBytes([new Uint8Array([0xfe]), utf8Encode("id")]));
  const left = async () => (await cluster.read((tx) => tx.getRangePage(ids.range()))).entries;
  for (let from = 0; from < 3; from++) {
    const transact = cluster.nodes[0]?.kv.transact(
      async (tx) => {
        for (let number = 0; number < CLEARED_KEYS_MAX; number++) {
          tx.set(ids.pack([from, utf8Encode(`${number}`)]), new Uint8Array(12));
        }
      },
      { whenUnknown: "retry" },
    );
    await cluster.world.until(transact as Promise<void>);
  }
  const { time } = cluster.world;
  await time.run(time.nowMs + 25 * 3_600_000);
  const before = (await left()).length;
  const counts: number[] = [];
  while (counts.at(-1) !== 1) {
    await cluster.write((tx) => tx.set(OLD.pack([0]), new Uint8Array(1)));
    counts.push((await left()).length);
    if (counts.length > before) throw new Error("The ids do not end");
  }
  const steps = counts.map((count, index) => (counts[index - 1] ?? before) - count);
  expect(Math.max(...steps)).toBeLessThanOrEqual(64);
  expect(Math.min(...steps)).toBeGreaterThan(0);
});

test("another node continues a removal if the removing node dies at any point", async () => {
  for (let seed = 0; seed < 20; seed++) {
    const cluster = openCluster(`kill ${seed}`, 2);
    const [killed, survivor] = cluster.nodes as [SimulatedNode, SimulatedNode];
    await cluster.fill(OTHER, 10);
    await cluster.fill(OLD, KEY_COUNT);
    await drop(cluster);
    cluster.start(killed);
    const { time } = cluster.world;
    await time.run(time.nowMs + cluster.world.random.integer(12));
    killed.crash();
    cluster.start(survivor);
    await cluster.untilRemoved();
    expect(await cluster.count(OLD), `seed ${seed}`).toBe(0);
    expect(await cluster.count(OTHER)).toBe(10);
    await cluster.stop();
  }
});

test("nodes share removals, and repeating a page whose commit has an unknown outcome does no harm", async () => {
  const cluster = openCluster("share", 3, { delayMsMax: 5 });
  const ranges = [1, 2, 3, 4, 5, 6].map((number) => Subspace.fromTuple(["many", number]));
  for (const subspace of ranges) await cluster.fill(subspace, 3_000);
  for (const subspace of ranges) {
    await cluster.write((tx) => removeInBackground(tx, subspace.range(), ORIGIN));
  }
  const flaky = cluster.world.openNode({ delayMsMax: 5, unknownRatio: 0.4, conflictRatio: 0.2 });
  cluster.nodes.push(flaky);
  for (const node of cluster.nodes) cluster.start(node);
  await cluster.untilRemoved();
  for (const subspace of ranges) expect(await cluster.count(subspace)).toBe(0);
  expect(new Set(cluster.pages.map(({ node }) => node)).size).toBeGreaterThan(1);
  await cluster.stop();
});

test("a removal that is queued while the remover is idle begins immediately", async () => {
  const cluster = openCluster("watch");
  cluster.start(cluster.nodes[0] as SimulatedNode);
  await cluster.world.time.run(cluster.world.time.nowMs + 1_000);
  await cluster.fill(OLD, 10);
  const beganMs = cluster.world.time.nowMs;
  await drop(cluster);
  await cluster.untilRemoved();
  expect(cluster.world.time.nowMs - beganMs).toBeLessThan(1_000);
  await cluster.stop();
});

test("the claim of a node whose clock is far ahead does not block other nodes", async () => {
  const cluster = openCluster("skew", 1);
  const ahead = cluster.world.openNode({ skewMs: 3_600_000 });
  await cluster.fill(OLD, KEY_COUNT);
  await drop(cluster);
  cluster.nodes.unshift(ahead);
  cluster.start(ahead);
  await cluster.world.time.run(cluster.world.time.nowMs + 5);
  ahead.crash();
  cluster.start(cluster.nodes[1] as SimulatedNode);
  await cluster.untilRemoved();
  expect(await cluster.count(OLD)).toBe(0);
  await cluster.stop();
});

test("sabotage: a count of the remaining keys detects a remover that skips a page", async () => {
  const cluster = openCluster("sabotage");
  const [node] = cluster.nodes as [SimulatedNode];
  await cluster.fill(OLD, KEY_COUNT);
  await drop(cluster);
  let pageCount = 0;
  const remover = new Remover({
    runtime: node.runtime,
    kv: node.kv,
    node: node.name,
    handlers: {
      database: async (tx, { begin, end }) => {
        const page = await tx.getRangePage({ begin, end }, { limit: 1_000 });
        if (++pageCount !== 2) for (const { key } of page.entries) tx.clear(key);
        return { keyCount: 1_000, byteCount: 0, isLast: pageCount === 5 };
      },
    },
  });
  await cluster.world.until(remover.once(new AbortController().signal));
  expect(await cluster.count(OLD)).toBeGreaterThan(0);
});

test("an engine that clears ranges atomically removes any range in one transaction", async () => {
  const storage = new MemoryStorage({ clearsRangesAtOnce: true });
  const world = new World("at once", storage);
  const { runtime } = world.openNode();
  const kv = new KeyValueStore({ runtime, engine: new MemoryEngine({ runtime, storage }) });
  for (let from = 0; from < KEY_COUNT; from += 1_000) {
    await world.until(
      kv.transact(async (tx) => {
        for (let at = 0; at < 1_000; at++) tx.set(OLD.pack([from + at]), utf8Encode(""));
      }),
    );
  }
  await world.until(kv.transact(async (tx) => removeInBackground(tx, OLD.range(), ORIGIN)));
  let pageCount = 0;
  world.listeners.push((name) => {
    if (name === "kv.page-removed") pageCount++;
  });
  const remover = new Remover({ runtime, kv, node: "n" });
  await world.until(remover.once(new AbortController().signal));
  const left = await world.until(kv.read((tx) => tx.getRangePage(OLD.range())));
  expect([pageCount, left.entries]).toEqual([1, []]);
});
