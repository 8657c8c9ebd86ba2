/**
 * Completed jobs and their documents. Both are deleted after `keep_finished_sec`. In virtual time.
 */
import { afterEach, expect, test } from "vitest";
import { openVirtualNode } from "../../support/virtual-node.ts";

type Node = ReturnType<typeof openVirtualNode>;

const MINUTE_MS = 60_000;
let node: Node;
afterEach(() => node.stop());

/** Opens a node with a replication document whose job has completed. */
async function completed(members: object, prepare = async (_: Node): Promise<void> => {}) {
  node = openVirtualNode({});
  await node.start();
  for (const name of ["_replicator", "a"]) await node.createDatabase(name);
  await prepare(node);
  const body = { source: "a", target: "b", create_target: true, ...members };
  await node.put("_replicator", "job", body);
  return node.document("job", ({ state }) => state === "completed");
}

async function hasDocument({ world, kv, databases }: Node): Promise<boolean> {
  const read = () =>
    kv.read(async (tx) => (await databases.open(tx, "_replicator")).documents.read(tx, "job"));
  const found = await world.until(read());
  return found !== undefined && !found.deleted;
}

const pass = ({ world }: Node, ms: number): Promise<boolean> =>
  world.time.run(world.time.nowMs + ms);

const jobCount = ({ world, replicator }: Node): Promise<number | undefined> =>
  world.until(replicator.lists.page({ filter: {}, limit: 5 }).then(({ total }) => total));

test("a completed job and its document are deleted after `keep_finished_sec`", async () => {
  await completed({ keep_finished_sec: 600 });
  await pass(node, 9 * MINUTE_MS);
  expect([await jobCount(node), await hasDocument(node)]).toEqual([1, true]);
  await pass(node, 2 * MINUTE_MS);
  expect([await jobCount(node), await hasDocument(node)]).toEqual([0, false]);
});

test("completed jobs are kept by default", async () => {
  await completed({});
  await pass(node, 20 * MINUTE_MS);
  expect([await jobCount(node), await hasDocument(node)]).toEqual([1, true]);
});

test("a completed job with failed documents is kept so that the failures can be inspected", async () => {
  const refusing = async ({ put, createDatabase }: Node): Promise<void> => {
    await createDatabase("b");
    const code = "function (doc) { if (doc.bad) throw {forbidden: 'no'}; }";
    await put("b", "_design/v", { validate_doc_update: code });
    await put("a", "bad", { bad: true });
  };
  await completed({ keep_finished_sec: 60, failure_retry_sec: 300 }, refusing);
  await pass(node, 20 * MINUTE_MS);
  expect([await jobCount(node), await hasDocument(node)]).toEqual([1, true]);
});
