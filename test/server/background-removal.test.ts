/**
 * Data of unbounded size is removed in the background. The in-memory store refuses to clear more
 * than a page of keys in one transaction. Each of these tests therefore fails if the removal is not
 * split.
 */
import { expect, onTestFinished, test } from "vitest";
import { Utf8Text } from "../../src/base/index.ts";
import type { Purge } from "../../src/databases/index.ts";
import { CLEARED_KEYS_MAX, type KeyRange, listRemovals } from "../../src/kv/index.ts";
import { encodeMark } from "../../src/replicator/job-changes/abandoned-replications.ts";
import { persistentJobId } from "../../src/replicator/jobs/job-data.ts";
import { replicatorKeys } from "../../src/replicator/replicator-keys.ts";
import { SUBSPACES } from "../../src/server/layout.ts";
import { openApi } from "../api/api.fixture.ts";
import { ADMIN, type Node, openNode } from "../support/open-node.ts";

const COUNT = CLEARED_KEYS_MAX + 200;
const DESIGN = JSON.stringify({
  language: "query",
  views: { n: { map: { fields: { n: "asc" } }, reduce: "_count", options: { def: {} } } },
});

async function open(options: Parameters<typeof openNode>[0] = {}): Promise<Node> {
  const node = await openNode(options);
  onTestFinished(() => node.stop());
  return node;
}

async function* once(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}

const signal = new AbortController().signal;

function keyCount({ kv }: Node, range: KeyRange): Promise<number> {
  return kv.read(async (tx) => (await tx.getRangePage(range)).entries.length);
}

async function fill(node: Node, name: string, count: number): Promise<void> {
  const edits = Array.from({ length: count }, (_, n) => ({
    mode: "interactive" as const,
    id: `d${n}`,
    parent: undefined,
    deleted: false,
    body: Utf8Text.of(JSON.stringify({ n })),
    attachments: [],
  }));
  await node.kv.transact(async (tx) => {
    const database = await node.databases.open(tx, name);
    await database.writeMany(tx, edits, ADMIN);
  });
}

test("a deleted database frees its name immediately, and a new database of this name is complete and independent", async () => {
  const node = await open();
  await node.createDatabase("films");
  await fill(node, "films", COUNT);
  const old = await node.kv.read((tx) => node.databases.open(tx, "films"));
  await node.kv.transact((tx) => node.databases.remove(tx, "films"));
  await node.createDatabase("films");
  expect(await node.content("films")).toEqual({});
  await node.put("films", "d7", "{}");
  const content = await node.content("films");
  expect(await keyCount(node, old.keys.everything)).toBeGreaterThan(COUNT);
  await node.remover.once(signal);
  expect(await keyCount(node, old.keys.everything)).toBe(0);
  expect(await node.content("films")).toEqual(content);
  expect(await node.kv.read((tx) => listRemovals(tx, 1))).toEqual([]);
});

test("an index removed from a design document is deleted, and its replacement is complete", async () => {
  const node = await open();
  await node.createDatabase("films");
  await node.put("films", "_design/n", DESIGN);
  await fill(node, "films", COUNT);
  const database = await node.kv.read((tx) => node.databases.open(tx, "films"));
  const range = database.indexSubspace.range();
  const before = await keyCount(node, range);
  await node.put("films", "_design/n", "{}");
  await node.put("films", "_design/n", DESIGN);
  await node.put("films", "d0", '{"n":-1}');
  await node.remover.once(signal);
  expect(before).toBeGreaterThan(2 * COUNT);
  expect(await keyCount(node, range)).toBeLessThan(10);
  const entries = await node.kv.read(async (tx) => {
    const [index] = await node.indexes.list(tx, database);
    const options = { after: undefined, descending: false, limit: 10 };
    return (
      index && node.indexes.entries(tx, database, index, { ...options, range: index.range([]) })
    );
  });
  expect(entries?.entries.map(({ id }) => id)).toEqual(["d0"]);
});

test("the rows about a rule's databases are deleted after the rule is removed", async () => {
  const node = await open();
  const uuid = "0123456789abcdef0123456789abcdef";
  await node.kv.transact(async (tx) => {
    for (let n = 0; n < COUNT; n++) {
      const row = { database: `d${n}`, generation: 1, securityDigest: undefined };
      node.ruleStore.setDatabase(tx, { uuid }, row);
    }
  });
  await node.kv.transact(async (tx) => node.ruleStore.remove(tx, "r", { uuid, generation: 1 }, 0));
  await node.remover.once(signal);
  const keys = replicatorKeys(SUBSPACES.replicator);
  expect(await keyCount(node, keys.ruleDatabase.range({ uuid }))).toBe(0);
});

test("the failure list of an abandoned replication is deleted page by page, along with its counts", async () => {
  const node = await open({ config: { abandonedSecMax: 0 } });
  const baseId = "b".repeat(32);
  const keys = replicatorKeys(SUBSPACES.replicator);
  const revision = "1-0123456789abcdef0123456789abcdef";
  const failed = Array.from({ length: COUNT }, (_, n) => {
    const failure = { phase: "write", status: 403, error: "forbidden", reason: "no" } as const;
    return { id: `d${n}`, revision, ...failure };
  });
  await node.kv.transact(async (tx) => {
    await node.failureLists.change(tx, baseId, { failed, arrived: [], nowMs: 1000 });
    node.failureLists.keep(tx, baseId);
    tx.set(keys.abandoned.key({ baseId }), encodeMark());
  });
  await node.cleanUp.once();
  await node.cleanUp.once();
  expect(await keyCount(node, keys.failure.range({ baseId }))).toBe(0);
  expect(await keyCount(node, keys.failureCount.range({ baseId }))).toBe(0);
  expect(await keyCount(node, keys.abandoned.range())).toBe(0);
});

test("purge records beyond a lowered limit are hidden immediately, and deleted by later purges", async () => {
  const node = await open();
  await node.createDatabase("films");
  const purge = async (count: number): Promise<void> => {
    let left: readonly Purge[] = Array.from({ length: count }, (_, n) => {
      return { id: `d${n}`, revisions: ["1-a"] };
    });
    while (left.length > 0) {
      const purges = left;
      const page = await node.kv.transact((tx) => database.purge(tx, purges, ADMIN));
      left = page.rest;
    }
  };
  const database = await node.kv.read((tx) => node.databases.open(tx, "films"));
  await node.kv.transact((tx) => database.purges.setInfosLimit(tx, 10_000));
  for (let round = 0; round < 3; round++) await purge(800);
  await node.kv.transact((tx) => database.purges.setInfosLimit(tx, 2));
  for (const left of [1_401, 402, 2]) {
    await purge(1);
    expect(await node.kv.read((tx) => database.purges.infos(tx))).toHaveLength(2);
    expect(await keyCount(node, database.keys.purge.range())).toBe(left);
  }
});

test("a purge of many large leaves takes several transactions, and reports all purged leaves", async () => {
  const { ask, parts } = await openApi();
  await ask("PUT /films");
  const { kv, databases, attachments } = parts;
  const database = await kv.read((tx) => databases.open(tx, "films"));
  const content = await attachments.stage(database, once("poster"), {});
  const named = Array.from({ length: 500 }, (_, n) => {
    return { kind: "staged", name: `p${n}`, contentType: "image/png", content } as const;
  });
  const hashes = Array.from({ length: 24 }, (_, n) => `${n}`.padStart(32, "0"));
  for (const hash of hashes) {
    const revisions = { start: 1, hashes: [hash] };
    const edit = { mode: "replicated", id: "d", deleted: false, body: Utf8Text.of("{}") } as const;
    await kv.transact((tx) =>
      database.writeMany(tx, [{ ...edit, revisions, attachments: named }], ADMIN),
    );
  }
  const revisions = hashes.map((hash) => `1-${hash}`);
  const { status, json } = await ask("POST /films/_purge", { body: { d: revisions } });
  expect([status, json.purged.d.toSorted()]).toEqual([201, revisions]);
  expect((await ask("GET /films/d")).status).toBe(404);
});

test("jobs of a deleted _replicator database neither start nor continue, even while the data still exists", async () => {
  const node = await open({ config: { jobsMax: 5 } });
  node.start({ removes: false });
  await node.createDatabase("a");
  await node.createDatabase("x/_replicator");
  const job = (n: number) =>
    JSON.stringify({ source: "a", target: `t${n}`, create_target: true, continuous: true });
  for (let n = 0; n < 20; n++) await node.put("x/_replicator", `job-${n}`, job(n));
  const { uuid } = await node.kv.read((tx) => node.databases.open(tx, "x/_replicator"));
  const isOld = ({ jobId }: Readonly<Record<string, unknown>>): boolean =>
    String(jobId).startsWith(persistentJobId(uuid, ""));
  await node.event("replication.started", isOld);
  await node.kv.transact((tx) => node.databases.remove(tx, "x/_replicator"));
  const eventCount = node.events.length;
  await node.createDatabase("x/_replicator");
  // The document requests a replication that a job of the deleted database still owns.
  await node.put("x/_replicator", "job-0", job(0));
  await node.event("replication.started", ({ jobId }) => !isOld({ jobId }));
  await node.put("a", "later", "{}");
  await node.onceContent("t0", (ids) => ids.includes("later"));
  const later = node.events.slice(eventCount).filter(({ fields }) => isOld(fields));
  expect(later.filter(({ name }) => name === "replication.halted")).not.toEqual([]);
  for (const name of ["replication.started", "replication.copied", "replication.ended"]) {
    expect(later.filter((event) => event.name === name)).toEqual([]);
  }
  await node.remover.once(signal);
  const left: string[] = [];
  for await (const { jobId } of node.replicator.lists.all({})) left.push(jobId);
  expect(left).toHaveLength(1);
  expect(isOld({ jobId: left[0] })).toBe(false);
});
