/** The first build of an index is a job that any node can continue. */
import { expect, onTestFinished, test } from "vitest";
import { Utf8Text } from "../../src/base/index.ts";
import { INDEX_JOB_TYPE, type IndexState } from "../../src/indexes/index.ts";
import { MemoryStorage } from "../../src/kv/index.ts";
import { ADMIN, type Node, openNode } from "../support/open-node.ts";

/**
 * Number of documents. It exceeds the size of a page and the number of documents that a query
 * indexes by itself.
 */
const DOCUMENT_COUNT = 1_200;
const DESIGN = JSON.stringify({
  language: "query",
  views: { n: { map: { fields: { n: "asc" } }, reduce: "_count", options: { def: {} } } },
});

async function openFull(
  storage = new MemoryStorage(),
  { count = DOCUMENT_COUNT, members = {} } = {},
): Promise<Node> {
  const node = await open(storage);
  await node.createDatabase("films");
  const edits = Array.from({ length: count }, (_, n) => ({
    mode: "interactive" as const,
    id: `d${10_000 + n}`,
    parent: undefined,
    deleted: false,
    body: Utf8Text.of(JSON.stringify({ n, ...members })),
    attachments: [],
  }));
  await node.kv.transact(async (tx) => {
    const database = await node.databases.open(tx, "films");
    await database.writeMany(tx, edits, ADMIN);
  });
  return node;
}

async function open(storage: MemoryStorage): Promise<Node> {
  const node = await openNode({ storage });
  onTestFinished(() => node.stop());
  return node;
}

/** Returns the ids of the indexed documents, in index order. */
async function indexed({ kv, databases, indexes }: Node): Promise<string[]> {
  return kv.read(async (tx) => {
    const database = await databases.open(tx, "films");
    const [index] = await indexes.list(tx, database);
    if (index === undefined) return [];
    const options = { range: index.range([]), after: undefined, descending: false, limit: 10_000 };
    const { entries } = await indexes.entries(tx, database, index, options);
    return entries.map(({ id }) => id);
  });
}

async function onceReady(node: Node): Promise<void> {
  await onceState(node, ({ isReady }) => isReady);
}

/** Waits until the state of the first build matches. */
async function onceState(
  { kv, databases, indexes }: Node,
  passes: (state: IndexState) => boolean,
): Promise<IndexState> {
  for (;;) {
    const { state, watch } = await kv.transact(async (tx) => {
      const database = await databases.open(tx, "films");
      const [index] = await indexes.list(tx, database);
      const number = index?.number ?? 1;
      const state = await indexes.state(tx, database, number);
      return { state, watch: indexes.watchState(tx, database, number) };
    });
    if (state !== undefined && passes(state)) {
      watch.cancel();
      return state;
    }
    await watch.fired();
  }
}

async function onceNoJob({ kv, jobs }: Node): Promise<void> {
  for (;;) {
    const { isOver, watch } = await kv.transact(async (tx) => {
      const [job] = (await jobs.list(tx, INDEX_JOB_TYPE, { limit: 1 })).entries;
      return { isOver: job === undefined, watch: job && jobs.watch(tx, job) };
    });
    if (isOver) return;
    await watch?.fired();
  }
}

test("a job indexes all documents, and is removed when the index is complete", async () => {
  const node = await openFull();
  node.start();
  await node.put("films", "_design/n", DESIGN);
  await onceReady(node);
  expect(await indexed(node)).toHaveLength(DOCUMENT_COUNT);
  await onceNoJob(node);
});

test("a job clears a deleted index, and is removed when the index is empty", async () => {
  const node = await openFull();
  node.start();
  await node.put("films", "_design/n", DESIGN);
  await onceReady(node);
  await onceNoJob(node);
  await node.put("films", "_design/n", "{}", true);
  await onceNoJob(node);
  const listed = node.kv.read(async (tx) =>
    node.indexes.list(tx, await node.databases.open(tx, "films")),
  );
  expect(await listed).toEqual([]);
});

test("a node finishes a build that another node has abandoned", async () => {
  const storage = new MemoryStorage();
  const first = await openFull(storage);
  await first.put("films", "_design/n", DESIGN);
  first.start();
  await onceState(first, ({ doneCount }) => doneCount > 0);
  await first.stop();
  const second = await open(storage);
  second.start();
  const { doneCount } = await onceState(second, ({ isReady }) => isReady);
  // No document is processed twice. The design document counts as one document.
  expect(doneCount).toBe(DOCUMENT_COUNT + 1);
  expect(await indexed(second)).toHaveLength(DOCUMENT_COUNT);
});

test("an index contains the latest version of each document that was written during the build", async () => {
  const node = await openFull();
  await node.put("films", "_design/n", DESIGN);
  node.start();
  const writes = Array.from({ length: 100 }, (_, n) => {
    const id = `d${10_000 + n * 12}`;
    return n % 2 === 0
      ? node.put("films", id, JSON.stringify({ n: -n }))
      : node.put("films", id, "{}", true);
  });
  await Promise.all([...writes, onceReady(node)]);
  const ids = await indexed(node);
  expect(ids).toHaveLength(DOCUMENT_COUNT - 50);
  expect(ids[0]).toBe(`d${10_000 + 98 * 12}`);
});

test("a query waits for the build, or performs the build itself if no node runs jobs", async () => {
  const node = await openFull();
  await node.put("films", "_design/n", DESIGN);
  const { signal } = new AbortController();
  const database = await node.kv.read((tx) => node.databases.open(tx, "films"));
  expect(await node.indexBuilds.whenReady(database, 1, signal)).toBe(true);
  expect(await indexed(node)).toHaveLength(DOCUMENT_COUNT);
  expect(await node.indexBuilds.whenReady(database, 2, signal)).toBe(false);
});

test("a build finishes even if its documents are so large that a page holds only one of them", async () => {
  const count = 14;
  const node = await openFull(undefined, { count, members: { text: "x".repeat(400_000) } });
  await node.put("films", "_design/n", DESIGN);
  const stopping = new AbortController();
  let pageCount = 0;
  const setState = node.indexes.setState.bind(node.indexes);
  node.indexes.setState = (...given) => {
    pageCount++;
    if (pageCount > 2 * count) stopping.abort(new Error(`${pageCount} pages, and no end`));
    setState(...given);
  };
  const database = await node.kv.read((tx) => node.databases.open(tx, "films"));
  expect(await node.indexBuilds.whenReady(database, 1, stopping.signal)).toBe(true);
  expect(await indexed(node)).toHaveLength(count);
  // The first page has ten documents, and each later page has one document.
  expect(pageCount).toBeGreaterThan(count - 10);
});

test("active tasks show a build while it runs", async () => {
  const node = await openFull();
  await node.put("films", "_design/n", DESIGN);
  await node.kv.transact((tx) =>
    node.jobs.accept(tx, INDEX_JOB_TYPE, { dueBySec: 1, countMax: 1 }),
  );
  expect(await node.indexBuilds.running()).toMatchObject([
    { database: "films", design: "_design/n", doneCount: 0, totalCount: 0 },
  ]);
});

test("deleting an index or its database removes the index entries and the build job", async () => {
  const node = await openFull();
  await node.put("films", "_design/n", DESIGN);
  node.start();
  await node.put("films", "_design/n", "{}", true);
  await onceNoJob(node);
  await node.kv.read(async (tx) => {
    const { indexSubspace } = await node.databases.open(tx, "films");
    const { entries } = await tx.getRangePage(indexSubspace.range());
    // The only remaining entry stores the number of the next index.
    expect(entries).toHaveLength(1);
  });
  await node.put("films", "_design/m", DESIGN);
  await node.kv.transact((tx) => node.databases.remove(tx, "films"));
  await onceNoJob(node);
});
