/** `_replicator` documents from another server that contain the outcomes of their jobs. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { Utf8Text } from "../../../src/base/index.ts";
import { documentView } from "../../../src/replicator/index.ts";
import { ADMIN, type Node, openNode } from "../../support/open-node.ts";

const DATABASE = "old/_replicator";
const STATS = {
  start_time: "2019-12-31T23:00:00Z",
  revisions_checked: 9,
  missing_revisions_found: 8,
  docs_read: 7,
  docs_written: 6,
  changes_pending: null,
  doc_write_failures: 1,
  checkpointed_source_seq: "12-abc",
};
const COMPLETED = {
  source: "http://user:pw@peer/a",
  target: "b",
  owner: null,
  _replication_state: "completed",
  _replication_state_time: "2020-01-01T00:00:00Z",
  _replication_id: "0123+continuous",
  _replication_stats: STATS,
};
const FAILED = {
  ...COMPLETED,
  _replication_state: "failed",
  _replication_state_reason: "db_not_found: could not open it",
};

let node: Node;

beforeEach(async () => {
  node = await openNode();
  await node.createDatabase(DATABASE);
});

afterEach(() => node.stop());

/** Writes a document to the database as a replication does. */
async function arrive(id: string, members: object, hash = "a".repeat(32)): Promise<void> {
  await node.kv.transact(async (tx) => {
    const database = await node.databases.open(tx, DATABASE);
    const edit = {
      mode: "replicated",
      id,
      revisions: { start: 2, hashes: [hash] },
      deleted: false,
      body: Utf8Text.of(JSON.stringify(members)),
      attachments: [],
    } as const;
    await database.write(tx, edit, ADMIN);
  });
}

async function found(id: string) {
  const { uuid } = await node.kv.read((tx) => node.databases.open(tx, DATABASE));
  return node.replicator.findDocument(uuid, id);
}

async function shown(id: string): Promise<unknown> {
  const entry = await found(id);
  return entry && documentView(entry, "http://here/");
}

test("a document in the state completed is shown as completed, with its statistics", async () => {
  await arrive("done", COMPLETED);
  expect(await shown("done")).toMatchObject({
    database: DATABASE,
    doc_id: "done",
    id: null,
    source: "http://peer/a/",
    target: "http://here/b/",
    state: "completed",
    info: {
      revisions_checked: 9,
      missing_revisions_found: 8,
      docs_read: 7,
      docs_written: 6,
      changes_pending: null,
      doc_write_failures: 1,
      checkpointed_source_seq: "12-abc",
    },
    error_count: 0,
    last_updated: "2020-01-01T00:00:00Z",
  });
  // The document itself has not changed.
  expect((await node.read(DATABASE, "done"))?.revision).toBe(`2-${"a".repeat(32)}`);
});

test("a document in the state failed is shown as failed, with its reason", async () => {
  await arrive("failed", FAILED);
  expect(await shown("failed")).toMatchObject({
    state: "failed",
    info: { error: "db_not_found: could not open it" },
    error_count: 1,
    last_updated: "2020-01-01T00:00:00Z",
  });
  await arrive("other", { ...FAILED, _replication_state_reason: "because" });
  expect(await shown("other")).toMatchObject({ info: { error: "error: because" } });
  const { _replication_state_reason: _, ...silent } = FAILED;
  await arrive("silent", silent);
  const error = "error: the document contains no reason";
  expect(await shown("silent")).toMatchObject({ info: { error } });
});

test("documents in the states completed and failed are listed and counted by state, and their jobs do not run", async () => {
  await arrive("done", COMPLETED);
  await arrive("failed", FAILED);
  const states = async (state: "completed" | "failed" | "pending") => {
    const page = await node.replicator.lists.page({ filter: { states: [state] }, limit: 10 });
    return page.entries.map(({ data }) => data.document?.id);
  };
  expect(await states("completed")).toEqual(["done"]);
  expect(await states("failed")).toEqual(["failed"]);
  expect(await states("pending")).toEqual([]);
  const counts = await node.kv.read((tx) => node.jobs.counts.read(tx, "replication"));
  expect(counts).toEqual({ pending: 0, running: 0, finished: 2 });
});

test("a job that ended on another server runs if it is retried or if its document loses the state", async () => {
  await node.createDatabase("a");
  await node.createDatabase("b");
  await node.put("a", "x", "{}");
  const local = { ...COMPLETED, source: "a" };
  await arrive("retried", local);
  await arrive("edited", { ...local, target: "c", create_target: true });
  const jobId = (await found("retried"))?.jobId as string;
  const decider = { userName: "root" };
  expect(await node.replicator.commands.retry(jobId, decider)).toBe("done");
  await node.put(
    DATABASE,
    "edited",
    JSON.stringify({ source: "a", target: "c", create_target: true, owner: null }),
  );
  node.start();
  await node.onceContent("b", (ids) => ids.includes("x"));
  await node.onceContent("c", (ids) => ids.includes("x"));
});

test("an incoming document with an outcome does not change a job that already exists", async () => {
  const { source, target, owner } = COMPLETED;
  await arrive("mine", { source, target, owner });
  await arrive("mine", COMPLETED, "b".repeat(32));
  expect(await shown("mine")).toMatchObject({ state: "pending" });
});

test("deleting a document that contains an outcome removes its job", async () => {
  await arrive("done", COMPLETED);
  await node.put(DATABASE, "done", "{}", true);
  expect(await found("done")).toBeUndefined();
});

test("state members that no replicator writes are ignored", async () => {
  const stats = {
    docs_read: "many",
    docs_written: -1,
    start_time: "never",
    checkpointed_source_seq: {},
  };
  for (const [id, members] of Object.entries({
    stats: { ...COMPLETED, _replication_stats: stats, _replication_state_time: 1e300 },
    list: { ...COMPLETED, _replication_stats: [], _replication_state_time: [] },
    reason: { ...FAILED, _replication_state_reason: { error: 1 } },
    malformed: { ...COMPLETED, source: 5 },
    epoch: { ...COMPLETED, _replication_state_time: 1_577_836_800 },
  })) {
    await arrive(id, members);
    const { state, info } = (await shown(id)) as { state: string; info: object };
    expect([id, state]).toEqual([id, members._replication_state]);
    expect(info).toBeDefined();
  }
  expect(await shown("epoch")).toMatchObject({ last_updated: "2020-01-01T00:00:00Z" });
});
