/** Jobs that replicate in both directions (`pair`), in virtual time. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { errorCode, Utf8Text } from "../../src/base/index.ts";
import { documentView, parseReplication } from "../../src/replicator/index.ts";
import { decodeSources } from "../../src/replicator/jobs/parked-record.ts";
import { replicatorKeys } from "../../src/replicator/replicator-keys.ts";
import { SUBSPACES } from "../../src/server/layout.ts";
import { World } from "../simulation/kernel/world.ts";
import { ADMIN } from "../support/open-node.ts";
import { openVirtualNode } from "../support/virtual-node.ts";

const PAIR = { source: "a", target: "b", pair: true, create_target: true };
const OPERATOR = { userName: "op", why: "test" };
const JOE = { userName: "joe", isAdmin: true };
const keys = replicatorKeys(SUBSPACES.replicator);

let node: ReturnType<typeof openVirtualNode>;

beforeEach(async () => {
  node = openVirtualNode({ world: new World("pairs"), config: { parkAfterSec: 10 } });
  await node.start();
  for (const name of ["a", "_replicator"]) await node.createDatabase(name);
  await node.put("a", "from-a", { value: 1 });
});
afterEach(() => node.stop());

const pass = (ms: number) => node.world.time.run(node.world.time.nowMs + ms);
const put = (id: string, members: object) =>
  node.put("_replicator", id, { owner: null, ...members });

async function has(database: string, id: string): Promise<boolean> {
  const read = node.kv.read(async (tx) =>
    (await node.databases.open(tx, database)).documents.read(tx, id),
  );
  return (await node.world.until(read.catch(() => undefined))) !== undefined;
}

async function onceCopied(database: string, id: string): Promise<void> {
  while (!(await has(database, id))) await pass(100);
}

test("a pair copies in both directions as one job, whose figures are the sums of both", async () => {
  await put("pair", { ...PAIR, continuous: true });
  await onceCopied("b", "from-a");
  await node.put("b", "from-b", { value: 2 });
  await onceCopied("a", "from-b");
  const entry = await node.document("pair", ({ backlog }) => backlog?.sinceMs === undefined);
  const { total } = await node.world.until(node.replicator.lists.page({ filter: {}, limit: 5 }));
  expect([total, entry.state]).toEqual([1, "running"]);
  const shown = await node.document("pair", ({ data: { statistics, reverse } }) => {
    return statistics.docsWritten === 1 && reverse?.statistics.docsWritten === 1;
  });
  expect(documentView(shown, "http://here/").info).toMatchObject({
    docs_written: 2,
    changes_pending: 0,
    reverse: { docs_written: 1 },
  });
});

test("a pair parks once both databases are idle, and is woken by a change in either database", async () => {
  await put("pair", { ...PAIR, continuous: true });
  const { jobId } = await node.document("pair", ({ data }) => data.state === "parked");
  const parkedPlaces = () =>
    node.world.until(
      node.kv.read(async (tx) => {
        const value = await tx.get(keys.parkedJob.key({ jobId }));
        return value === undefined ? [] : decodeSources(value).map(({ database }) => database);
      }),
    );
  expect(await parkedPlaces()).toEqual(["a", "b"]);
  for (const [written, other] of [
    ["b", "a"],
    ["a", "b"],
  ] as const) {
    await node.put(written, `new-${written}`, {});
    await onceCopied(other, `new-${written}`);
    await node.document("pair", ({ data }) => data.state === "parked");
    await pass(30_000);
    const { data, backlog } = await node.document("pair", ({ data }) => data.state === "parked");
    expect([backlog?.pending, data.failing]).toEqual([0, undefined]);
  }
  expect(await parkedPlaces()).toEqual(["a", "b"]);
});

test("a paused pair copies in neither direction", async () => {
  await put("pair", { ...PAIR, continuous: true });
  await onceCopied("b", "from-a");
  const { jobId } = await node.document("pair", () => true);
  expect(await node.world.until(node.replicator.commands.pause(jobId, OPERATOR))).toBe("done");
  await node.document("pair", ({ state }) => state === "pending");
  await node.put("a", "later-a", {});
  await node.put("b", "later-b", {});
  await pass(600_000);
  expect([await has("b", "later-a"), await has("a", "later-b")]).toEqual([false, false]);
  await node.world.until(node.replicator.commands.resume(jobId, OPERATOR));
  await onceCopied("b", "later-a");
  await onceCopied("a", "later-b");
});

test("a pair that is paused during a run that would park it is not parked", async () => {
  await node.stop();
  const config = { parkAfterSec: 10, jobsMax: 9 };
  node = openVirtualNode({ world: new World("paused-pairs"), config });
  await node.start();
  for (const name of ["a", "_replicator"]) await node.createDatabase(name);
  await node.put("a", "from-a", { value: 1 });
  await put("pair", { ...PAIR, continuous: true });
  await onceCopied("b", "from-a");
  const { jobId } = await node.document("pair", () => true);
  expect(await node.world.until(node.replicator.commands.pause(jobId, OPERATOR))).toBe("done");
  await pass(60_000);
  const { state, data } = await node.document("pair", () => true);
  expect([state, data.state]).toEqual(["pending", "pending"]);
  await node.put("a", "later-a", {});
  await pass(600_000);
  expect(await has("b", "later-a")).toBe(false);
});

test("a pair completes once both directions have copied everything, and returns both results", async () => {
  await node.createDatabase("b");
  await node.put("b", "from-b", {});
  const id = await node.world.until(node.replicator.start(parseReplication(PAIR), JOE));
  const outcome = await node.world.until(node.replicator.ended(id, new AbortController().signal));
  expect(outcome).toMatchObject({
    result: {
      history: [{ docs_written: 1 }],
      reverse: { history: [{ docs_written: 1 }] },
    },
  });
  expect([await has("b", "from-a"), await has("a", "from-b")]).toEqual([true, true]);
});

test("a pair lists, counts and retries the documents that either database refuses", async () => {
  const refuse = (id: string) =>
    `function (doc) { if (doc._id === "${id}") throw { forbidden: "no" }; }`;
  await node.createDatabase("b");
  await node.put("b", "from-b", {});
  await node.put("a", "_design/v", { validate_doc_update: refuse("from-b") });
  await node.put("b", "_design/v", { validate_doc_update: refuse("from-a") });
  await put("pair", { ...PAIR, doc_ids: ["from-a", "from-b"] });
  const entry = await node.document("pair", ({ state }) => state === "completed");
  const { failures } = node.replicator;
  const listed = await node.world.until(failures.list(entry, { skip: 0, limit: 10 }));
  expect(listed.map(({ id }) => id)).toEqual(["from-a", "from-b"]);
  expect((await node.world.until(failures.list(entry, { skip: 1, limit: 1 })))[0]?.id).toBe(
    "from-b",
  );
  expect(await node.world.until(failures.counts(entry))).toMatchObject([
    { count: 2, error: "forbidden" },
  ]);
  const isLeftBehind = async () => {
    const { total } = await node.world.until(
      node.replicator.lists.page({ filter: { left_behind: true }, limit: 1 }),
    );
    return total === 1;
  };
  expect(await isLeftBehind()).toBe(true);
  const { signal } = new AbortController();
  const retried = await node.world.until(failures.retry(entry, undefined, signal));
  expect(retried).toMatchObject({ triedCount: 2, leftCount: 2 });
  await node.document("pair", ({ data }) =>
    [data, data.reverse].every((direction) => direction?.statistics.missingChecked === 2),
  );
});

test("a continuous job retries the failures of both directions on request", async () => {
  const code = 'function (doc) { if (doc.refused) throw { forbidden: "no" }; }';
  await node.createDatabase("b");
  for (const name of ["a", "b"]) {
    await node.put(name, "_design/v", { validate_doc_update: code });
  }
  await node.put("a", "refused-a", { refused: true });
  await node.put("b", "refused-b", { refused: true });
  await put("pair", { ...PAIR, continuous: true, doc_ids: ["refused-a", "refused-b"] });
  const { failures } = node.replicator;
  const listed = async () => {
    const entry = await node.document("pair", () => true);
    return node.world.until(failures.list(entry, { skip: 0, limit: 10 }));
  };
  while ((await listed()).length < 2) await pass(100);
  const entry = await node.document("pair", () => true);
  await node.world.until(failures.retry(entry, undefined, new AbortController().signal));
  while ((await listed()).some(({ tries }) => tries < 2)) await pass(1_000);
  expect((await listed()).map(({ id }) => id)).toEqual(["refused-a", "refused-b"]);
});

test("a pair owns both of its replications, so a job for the reverse direction is a duplicate", async () => {
  await put("pair", { ...PAIR, continuous: true });
  await onceCopied("b", "from-a");
  await put("reverse", { source: "b", target: "a", continuous: true });
  const entry = await node.document("reverse", ({ state }) => state === "failed");
  expect(documentView(entry, "http://here/").info).toMatchObject({
    error: "duplicate_job: Duplicate job running: _replicator/pair (running)",
  });
  const reverseId = entry.data.replicationId ?? "";
  const found = await node.world.until(node.replicator.find(reverseId));
  expect(found?.data.document?.id).toBe("pair");
});

test("a failure of a pair has a host but no side, and makes the pair's lag unknown", async () => {
  await put("pair", { ...PAIR, target: "http://b.example/b", continuous: true });
  const { data, backlog } = await node.document("pair", ({ state }) => state === "crashing");
  expect([data.failing?.side, data.failing?.host]).toEqual([undefined, "b.example"]);
  expect(backlog).toBeUndefined();
});

test("a pair with options that apply to only one direction is rejected", () => {
  const refusalOf = (more: object) => {
    try {
      parseReplication({ ...PAIR, ...more });
    } catch (error) {
      if (errorCode(error) === "REPLICATOR_INVALID")
        return (error as Error & { reason: string }).reason;
    }
    return undefined;
  };
  expect(refusalOf({ pair: "yes" })).toBe("parameter `pair` must be a boolean");
  expect(refusalOf({ since_seq: 5 })).toMatch(/^`since_seq` is a position in the source only/);
  expect(refusalOf({ schedule: "after 10 changes" })).toMatch(
    /^`schedule` of a pair must not be a number of changes/,
  );
  expect(refusalOf({ pair: false, since_seq: 5 })).toBeUndefined();
  expect(refusalOf({ schedule: "every 15m" })).toBeUndefined();
});

test("`pair` is rejected while the store has an older format without pairs", async () => {
  const older = openVirtualNode({ format: { includes: async () => false } });
  await older.start();
  await expect(older.replicator.start(parseReplication(PAIR), JOE)).rejects.toMatchObject({
    reason: expect.stringMatching(/^`pair` requires a newer format of the store; run/),
  });
  await older.stop();
});

test("a document that gains or loses `pair` replaces its job", async () => {
  await put("pair", { ...PAIR, continuous: true });
  await onceCopied("b", "from-a");
  const change = (members: object) =>
    node.world.until(
      node.kv.transact(async (tx) => {
        const database = await node.databases.open(tx, "_replicator");
        const parent = (await database.documents.read(tx, "pair"))?.revision;
        const edit = { mode: "interactive", id: "pair", parent, deleted: false } as const;
        const body = Utf8Text.of(JSON.stringify({ owner: null, ...members }));
        return database.write(tx, { ...edit, body, attachments: [] }, ADMIN);
      }),
    );
  expect(await change({ source: "a", target: "b", continuous: true })).toMatchObject({
    kind: "written",
  });
  await node.document("pair", ({ data }) => data.replicationId !== undefined && !data.reverse);
  await node.put("b", "only-in-b", {});
  await node.put("a", "later", {});
  await onceCopied("b", "later");
  await pass(60_000);
  expect(await has("a", "only-in-b")).toBe(false);
  // The reverse replication no longer has an owner.
  await put("reverse", { source: "b", target: "a", continuous: true });
  await onceCopied("a", "only-in-b");
});
