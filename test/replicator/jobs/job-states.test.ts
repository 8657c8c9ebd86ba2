/**
 * The job states of RFC 016, with their causes and the corresponding states of the queue and the
 * document.
 */
import { afterEach, expect, test } from "vitest";
import { Utf8Text } from "../../../src/base/index.ts";
import { parseReplication, REPLICATION_JOB_TYPE } from "../../../src/replicator/index.ts";
import { ADMIN, type Node, openNode } from "../../support/open-node.ts";

const USER = { userName: null, isAdmin: true };
const FOREVER = new AbortController().signal;
/** Pauses that are so long that a failed job is not due again within a test. */
const LONG_PAUSES = { penaltySecMin: 100_000, penaltySecMax: 1_000_000 };
const nodes: Node[] = [];

async function open(options: Parameters<typeof openNode>[0] = {}): Promise<Node> {
  const node = await openNode(options);
  nodes.push(node);
  await node.createDatabase("_replicator");
  return node;
}

afterEach(async () => {
  for (const node of nodes.splice(0)) await node.stop();
});

function uuidOf(node: Node): Promise<string> {
  return node.kv.read(async (tx) => (await node.databases.open(tx, "_replicator")).uuid);
}

/** Returns a document's job, and the job's state in the queue. */
async function jobOf(node: Node, documentId: string) {
  const entry = await node.replicator.findDocument(await uuidOf(node), documentId);
  if (entry === undefined) return undefined;
  const job = { type: REPLICATION_JOB_TYPE, id: entry.jobId };
  const queued = await node.kv.read((tx) => node.jobs.get(tx, job));
  return { ...entry, queueState: queued?.state };
}

async function members(node: Node, documentId: string): Promise<Record<string, unknown>> {
  return JSON.parse((await node.read("_replicator", documentId))?.body.text ?? "{}");
}

/** Resolves when this many runs have ended in this state. */
function ended(node: Node, state: string, count = 1) {
  return node.event("replication.ended", () => {
    const all = node.events.filter(({ name }) => name === "replication.ended");
    return all.filter(({ fields }) => fields.state === state).length === count;
  });
}

test("a document and its job are written atomically", async () => {
  const node = await open();
  const write = (isKept: boolean) =>
    node.kv.transact(async (tx) => {
      const database = await node.databases.open(tx, "_replicator");
      const body = Utf8Text.of('{"source":"a","target":"b"}');
      const edit = { id: "copy", parent: undefined, deleted: false, body, attachments: [] };
      await database.write(tx, { ...edit, mode: "interactive" }, ADMIN);
      if (!isKept) throw new Error("The writer thinks better of it");
    });
  await expect(write(false)).rejects.toThrow("thinks better");
  expect([await node.read("_replicator", "copy"), await jobOf(node, "copy")]).toEqual([
    undefined,
    undefined,
  ]);
  await write(true);
  expect(await jobOf(node, "copy")).toBeDefined();
});

test("a new job is pending, and its id is known without a request to a server", async () => {
  let requestCount = 0;
  const node = await open({
    fetch: async () => {
      requestCount++;
      throw new Error("Nobody is to be asked");
    },
  });
  const body = '{"source":"http://far/a","target":"http://far/b","filter":"d/f"}';
  await node.put("_replicator", "copy", body);
  expect(await jobOf(node, "copy")).toMatchObject({
    jobId: `${await uuidOf(node)}|copy`,
    queueState: "pending",
    data: { state: "pending", errorCount: 0, history: [{ type: "added" }] },
  });
  const transient = await node.replicator.start(parseReplication(JSON.parse(body)), USER);
  expect((await node.replicator.find(transient))?.data.state).toBe("pending");
  expect(requestCount).toBe(0);
});

test("a failing job has the state crashing, is pending in the queue, and does not record the failure in its document", async () => {
  const node = await open({ config: LONG_PAUSES });
  node.start();
  await node.createDatabase("b");
  await node.put("_replicator", "copy", '{"source":"a","target":"b"}');
  const asWritten = await members(node, "copy");
  for (const errorCount of [1, 2]) {
    await ended(node, "crashing", errorCount);
    const job = await jobOf(node, "copy");
    expect(job).toMatchObject({
      queueState: "pending",
      data: { state: "crashing", errorCount, failure: { error: "db_not_found" } },
    });
    const pauseSec = Number(job?.scheduledAtSec) - Number(job?.data.lastUpdatedMs) / 1000;
    // The pause doubles with each error, minus a random part of up to a quarter. Times are in whole
    // seconds.
    expect(pauseSec).toBeGreaterThan(LONG_PAUSES.penaltySecMin * 2 ** errorCount * 0.74);
    expect(await members(node, "copy")).toEqual(asWritten);
    if (errorCount === 2) await node.createDatabase("a");
    await node.replicator.commands.retry(String(job?.jobId), { userName: null });
  }
  await ended(node, "completed");
  const job = await jobOf(node, "copy");
  expect(job).toMatchObject({
    queueState: "finished",
    data: { state: "completed", errorCount: 0 },
  });
  expect(await members(node, "copy")).toMatchObject({ _replication_state: "completed" });
  const crash = ["pending", "crashed", "started"];
  expect(job?.data.history.map(({ type }) => type)).toEqual([
    ...["stopped", "started"],
    ...crash,
    ...crash,
    "added",
  ]);
});

test("the job of a document in the state failed has ended", async () => {
  const node = await open();
  const body = { source: "a", target: "b" };
  await node.put("_replicator", "bad", JSON.stringify({ ...body, _replication_state: "failed" }));
  await node.put("_replicator", "good", JSON.stringify(body));
  expect(await jobOf(node, "bad")).toMatchObject({ state: "failed", queueState: "finished" });
  expect(await jobOf(node, "good")).toMatchObject({ state: "pending" });
});

test("a transient job fails if a document's job already runs the same replication", async () => {
  const node = await open();
  node.start();
  await node.createDatabase("a");
  const body = { source: "a", target: "b", create_target: true, continuous: true };
  await node.put("_replicator", "copy", JSON.stringify(body));
  await node.event("replication.started");
  const transient = await node.replicator.start(parseReplication(body), USER);
  expect(await node.replicator.started(transient, FOREVER)).toMatchObject({
    error: "duplicate_job",
    reason: expect.stringMatching(
      /^Duplicate job running: _replicator\/copy \((running|pending)\)$/,
    ),
  });
  expect((await node.replicator.find(transient))?.data.state).toBe("failed");
});

test.each([
  ["crashes", {}, "crashing"],
  ["has ended", { create_target: true }, "completed"],
])(
  "a job that %s does not keep another job from running the same replication",
  async (_, more, state) => {
    const node = await open({ config: LONG_PAUSES });
    node.start();
    await node.createDatabase("a");
    const body = JSON.stringify({ source: "a", target: "b", ...more });
    await node.put("_replicator", "first", body);
    await ended(node, state);
    await node.put("_replicator", "second", body);
    await node.event("replication.ended", ({ jobId }) => String(jobId).endsWith("|second"));
    expect((await jobOf(node, "second"))?.data).toMatchObject({ state });
  },
);

test("an unreadable filter is requested again after a pause, and the job continues", async () => {
  const node = await open({ config: LONG_PAUSES });
  node.start();
  for (const name of ["a", "b"]) await node.createDatabase(name);
  await node.put("a", "doc", "{}");
  await node.put("_replicator", "copy", '{"source":"a","target":"b","filter":"d/f"}');
  await node.event("replication.ended");
  const job = await jobOf(node, "copy");
  expect(job?.data).toMatchObject({
    state: "crashing",
    errorCount: 1,
    failure: { error: "filter_fetch_error" },
  });
  expect(job?.scheduledAtSec).toBeGreaterThan(Number(job?.data.lastUpdatedMs) / 1000);
  const filters = { f: "function (doc) { return doc._id === 'doc'; }" };
  await node.put("a", "_design/d", JSON.stringify({ filters }));
  await node.replicator.commands.retry(String(job?.jobId), { userName: null });
  await ended(node, "completed");
  expect(Object.keys(await node.content("b"))).toEqual(["doc"]);
});
