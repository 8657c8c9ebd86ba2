/** Jobs that start once others have completed or caught up (`after`), in virtual time. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { Utf8Text } from "../../src/base/index.ts";
import type { WriteContext } from "../../src/databases/index.ts";
import {
  documentView,
  parseReplication,
  REPLICATOR_CONFIG_DEFAULT,
} from "../../src/replicator/index.ts";
import { AWAITING_SEC } from "../../src/replicator/jobs/decide.ts";
import { replicatorKeys } from "../../src/replicator/replicator-keys.ts";
import { SUBSPACES } from "../../src/server/layout.ts";
import { World } from "../simulation/kernel/world.ts";
import { ADMIN } from "../support/open-node.ts";
import { openVirtualNode } from "../support/virtual-node.ts";

const OPERATOR = { userName: "op", why: "test" };
const ANN = { userName: "ann", isAdmin: false };
const copy = (target: string, more: object = {}) => ({
  source: "a",
  target,
  create_target: true,
  ...more,
});

let node: ReturnType<typeof openVirtualNode>;
let uuid: string;

beforeEach(async () => {
  node = openVirtualNode({ world: new World("chains"), config: { parkAfterSec: 10 } });
  await node.start();
  for (const name of ["a", "_replicator"]) await node.createDatabase(name);
  await node.put("a", "doc", { value: 1 });
  ({ uuid } = await node.world.until(node.kv.read((tx) => node.databases.open(tx, "_replicator"))));
});
afterEach(() => node.stop());

const put = (id: string, members: object) =>
  node.put("_replicator", id, { owner: null, ...members });
const find = (id: string) => node.world.until(node.replicator.findDocument(uuid, id));
const pass = (ms: number) => node.world.time.run(node.world.time.nowMs + ms);

/** Changes an existing document. */
async function change(id: string, members: object): Promise<void> {
  const body = Utf8Text.of(JSON.stringify({ owner: null, ...members }));
  const outcome = await node.world.until(
    node.kv.transact(async (tx) => {
      const database = await node.databases.open(tx, "_replicator");
      const parent = (await database.documents.read(tx, id))?.revision;
      const edit = { mode: "interactive", id, parent, deleted: false, attachments: [] } as const;
      return database.write(tx, { ...edit, body }, ADMIN);
    }),
  );
  expect(outcome).toMatchObject({ kind: "written" });
}

/** Writes a document as another user. Returns the outcome. */
function putAs(id: string, members: object, { userName, isAdmin }: typeof ANN) {
  const writer: WriteContext = { userName, roles: isAdmin ? ["_admin"] : [], isAdmin };
  const body = Utf8Text.of(JSON.stringify(members));
  const edit = {
    mode: "interactive",
    id,
    parent: undefined,
    deleted: false,
    attachments: [],
  } as const;
  return node.world.until(
    node.kv.transact(async (tx) =>
      (await node.databases.open(tx, "_replicator")).write(tx, { ...edit, body }, writer),
    ),
  );
}

/** Returns the state of a waiting job, as `_scheduler/docs` and the job lists show it. */
async function shown(id: string) {
  const entry = await find(id);
  if (entry === undefined) throw new Error("The job is there");
  const [measure] = await node.world.until(node.replicator.measures.of([entry]));
  const listed = await node.world.until(node.replicator.lists.entries([entry.jobId]));
  expect(listed.get(entry.jobId)?.awaits).toEqual(entry.awaits);
  const { state, info } = documentView(entry, "http://here/");
  const { error, after } = info as { readonly error?: string; readonly after?: string };
  return { state, heldBackBy: measure?.heldBackBy, nextTryMs: measure?.nextTryMs, error, after };
}

/** Returns the number of rows of chains in the store. */
function rowCount() {
  const { chainWait, chainWaiter, chainReached } = replicatorKeys(SUBSPACES.replicator);
  return node.world.until(
    node.kv.read(async (tx) => {
      const pages = [chainWait.range(), chainWaiter.range(), chainReached.range()];
      const found = await Promise.all(pages.map((range) => tx.getRangePage(range)));
      return found.reduce((sum, { entries }) => sum + entries.length, 0);
    }),
  );
}

test("a job starts once a job that is created later has completed", async () => {
  await put("second", copy("c", { after: "first" }));
  await pass(60_000);
  expect(await shown("second")).toEqual({
    state: "pending",
    heldBackBy: "after",
    nextTryMs: undefined,
    error:
      "no_job: The job waits for _replicator/first, but you have no job of this name; create it, or change `after`",
    after: undefined,
  });
  await put("first", copy("b"));
  const first = await node.document("first", ({ state }) => state === "completed");
  const second = await node.document("second", ({ state }) => state === "completed");
  expect(second.data.lastStartMs).toBeGreaterThanOrEqual(first.data.lastUpdatedMs);
  expect(await rowCount()).toBe(0);
});

test("a job whose `after` names a completed and a parked job starts immediately", async () => {
  await put("once", copy("b"));
  await put("lasting", copy("c", { continuous: true }));
  await node.document("once", ({ state }) => state === "completed");
  await node.document("lasting", ({ data }) => data.state === "parked");
  await put("third", copy("d", { after: ["once", "_replicator/lasting"] }));
  expect(await rowCount()).toBe(0);
  await node.document("third", ({ state }) => state === "completed");
});

test("a job starts once the continuous job in its `after` has caught up, and keeps running when the continuous job falls behind", async () => {
  await put("first", copy("b", { continuous: true, schedule: "between 00:02 and 00:01" }));
  await put("second", copy("c", { continuous: true, after: "first" }));
  expect((await shown("second")).after).toBe(
    "The job starts once _replicator/first has completed or caught up",
  );
  await node.document("second", ({ data }) => data.state === "parked");
  const first = await find("first");
  // The paused job falls behind, and does not catch up again.
  await node.world.until(node.replicator.commands.pause(first?.jobId ?? "", OPERATOR));
  await node.put("a", "more", { value: 2 });
  await node.document("second", ({ data }) => data.statistics.docsWritten === 2);
});

test("a job starts once the continuous job in its `after` has caught up, even if that job cannot park", async () => {
  const config = { ...REPLICATOR_CONFIG_DEFAULT, parkAfterSec: 0 };
  const other = openVirtualNode({ world: node.world, config });
  await node.stop();
  await other.start();
  await put("second", copy("c", { after: "first" }));
  await put("first", copy("b", { continuous: true }));
  await node.document("second", ({ state }) => state === "completed");
  expect((await find("first"))?.state).toBe("running");
  await other.stop();
});

test("a job that waits for several jobs starts once each of them has completed, in any order", async () => {
  await put("third", copy("d", { after: ["first", "second"] }));
  await put("second", copy("c"));
  await node.document("second", ({ state }) => state === "completed");
  expect((await shown("third")).error).toMatch(/^no_job: The job waits for _replicator\/first,/);
  // Removes the second job. It counts as completed because it has completed once.
  const second = await find("second");
  await node.world.until(node.replicator.commands.cancel(second?.jobId ?? "", OPERATOR));
  await put("first", copy("b"));
  await node.document("third", ({ state }) => state === "completed");
});

test("a job that waits for a failed job reports the failure, and starts once the failed job's document is changed and the new job completes", async () => {
  await put("live", copy("b", { continuous: true }));
  await node.document("live", ({ data }) => data.state === "parked");
  await put("first", copy("b", { continuous: true }));
  await put("second", copy("c", { after: "first" }));
  await node.document("first", ({ state }) => state === "failed");
  expect((await shown("second")).error).toMatch(
    /^failed_job: .* _replicator\/first, which has failed/,
  );
  await change("first", copy("d"));
  await node.document("second", ({ state }) => state === "completed");
});

test("a cycle of waiting jobs is reported, and a retry starts one of these jobs immediately", async () => {
  await put("x", copy("b", { after: "z" }));
  await put("y", copy("c", { after: "x" }));
  await put("z", copy("d", { after: ["y"] }));
  await put("tail", copy("e", { after: "x" }));
  for (const [id, next] of Object.entries({ x: "z", y: "x", z: "y" })) {
    expect((await shown(id)).error).toContain(
      `cycle: The job waits for _replicator/${next}, which`,
    );
  }
  expect((await shown("tail")).error).toBe(undefined);
  const x = await find("x");
  expect(await node.world.until(node.replicator.commands.retry(x?.jobId ?? "", OPERATOR))).toBe(
    "done",
  );
  for (const id of ["x", "y", "z", "tail"])
    await node.document(id, ({ state }) => state === "completed");
  expect(await rowCount()).toBe(0);
});

test("a waiting job still waits after a pause, a resume and a reset, and its removal leaves no rows", async () => {
  const { commands } = node.replicator;
  await put("second", copy("c", { after: "first" }));
  const jobId = (await find("second"))?.jobId ?? "";
  await node.world.until(commands.pause(jobId, OPERATOR));
  expect(await shown("second")).toMatchObject({ heldBackBy: "paused", error: undefined });
  await node.world.until(commands.resume(jobId, OPERATOR));
  expect((await find("second"))?.scheduledAtSec).toBe(AWAITING_SEC);
  await node.world.until(commands.startFrom(jobId, 0, OPERATOR));
  await pass(60_000);
  expect((await find("second"))?.data.lastStartMs).toBe(0);
  // The first job completes while the second one is paused. The second one starts when it is
  // resumed.
  await node.world.until(commands.pause(jobId, OPERATOR));
  await put("first", copy("b"));
  await node.document("first", ({ state }) => state === "completed");
  await pass(60_000);
  expect((await find("second"))?.data.lastStartMs).toBe(0);
  await node.world.until(commands.resume(jobId, OPERATOR));
  await node.document("second", ({ state }) => state === "completed");
  await put("third", copy("d", { after: ["none", "nobody"] }));
  expect(await rowCount()).toBe(4);
  await node.world.until(commands.cancel((await find("third"))?.jobId ?? "", OPERATOR));
  expect(await rowCount()).toBe(0);
});

test("a job waits for the jobs that the latest revision of its document names", async () => {
  await put("second", copy("c", { after: "first" }));
  await change("second", copy("c", { after: "other" }));
  await put("first", copy("b"));
  await node.document("first", ({ state }) => state === "completed");
  await pass(60_000);
  expect((await shown("second")).error).toContain("_replicator/other");
  await change("second", copy("c"));
  await node.document("second", ({ state }) => state === "completed");
});

test("a job that waits for another user's job gets the same error as for a missing job, and does not start", async () => {
  await put("secret", copy("b"));
  await node.document("secret", ({ state }) => state === "completed");
  const http = { source: "http://far.example/a", target: "http://far.example/b" };
  expect(await putAs("hers", { ...http, after: "secret" }, ANN)).toMatchObject({ kind: "written" });
  expect(await putAs("lost", { ...http, after: "absent" }, ANN)).toMatchObject({ kind: "written" });
  await pass(60_000);
  const [foreign, missing] = [await shown("hers"), await shown("lost")];
  expect(foreign).toEqual({ ...missing, error: missing.error?.replace("absent", "secret") });
  // The job does not start when the other user's job completes again.
  const secret = await find("secret");
  await node.world.until(node.replicator.commands.retry(secret?.jobId ?? "", OPERATOR));
  await pass(60_000);
  expect((await find("secret"))?.state).toBe("completed");
  expect((await find("hers"))?.data.lastStartMs).toBe(0);
});

test("a document that names itself or an invalid name is rejected", async () => {
  expect(
    await putAs("self", { ...copy("b"), after: "self" }, { ...ANN, isAdmin: true }),
  ).toMatchObject({
    error: "forbidden",
    reason: expect.stringMatching(/^`after` names this document itself, "self"/),
  });
  expect(await putAs("bad", { ...copy("b"), after: 7 }, { ...ANN, isAdmin: true })).toMatchObject({
    error: "forbidden",
    reason: expect.stringMatching(/^`after` must be the name of a job/),
  });
});

test("a job of `_replicate` waits for the job of a document whose id and database are in `after`", async () => {
  const asked = (after: string) => parseReplication({ ...copy("c"), after });
  await expect(
    node.replicator.start(asked("first"), { ...ANN, isAdmin: true }),
  ).rejects.toMatchObject({
    reason: expect.stringContaining('names such as "_replicator/document"'),
  });
  const id = await node.world.until(
    node.replicator.start(asked("_replicator/first"), { ...ANN, isAdmin: true }),
  );
  await pass(60_000);
  expect((await node.world.until(node.replicator.find(id)))?.awaits?.error).toBe("no_job");
  const ended = node.replicator.ended(id, new AbortController().signal);
  await put("first", copy("b"));
  expect(await node.world.until(ended)).toMatchObject({ kind: "completed" });
});

test("a rule's job for a database waits for another rule's job for the same database", async () => {
  const owner = { userName: "root", vouched: undefined, wasAdmin: true };
  const rule = { source: "local", databases: ["a"], target: "first-{db}" };
  const { rules } = node.replicator;
  await node.world.until(
    rules.put("second", { ...rule, target: "second-{db}", after: "first/{db}" }, owner as never),
  );
  await pass(60_000);
  const named = await node.world.until(
    node.replicator.named.idsOf("second/a", { ...owner, userName: "root" }),
  );
  const second = async () => node.world.until(node.replicator.find(named[1] ?? ""));
  expect((await second())?.awaits?.error).toBe("no_job");
  await node.world.until(rules.put("first", rule, owner as never));
  await pass(60_000);
  expect((await second())?.data.state).toBe("parked");
});

test("a job that completes starts all jobs that wait for it, even if this takes several transactions", async () => {
  for (let number = 0; number < 120; number++) {
    await put(`next-${number}`, copy("c", { after: "first", doc_ids: [`${number}`] }));
  }
  await put("first", copy("b"));
  await node.document("first", ({ state }) => state === "completed");
  for (let number = 0; number < 120; number++) {
    await node.document(`next-${number}`, ({ state }) => state === "completed");
  }
  expect(await rowCount()).toBe(0);
});

test("`after` is rejected while the store has an older format without chains", async () => {
  const older = openVirtualNode({ format: { includes: async () => false } });
  await older.start();
  const asked = parseReplication({ ...copy("c"), after: "_replicator/first" });
  await expect(older.replicator.start(asked, ANN)).rejects.toMatchObject({
    reason: expect.stringMatching(/^`after` requires a newer format of the store; run/),
  });
  await older.stop();
});
