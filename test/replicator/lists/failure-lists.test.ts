import { afterEach, expect, test } from "vitest";
import { errorCode, Notifier, OperationalError } from "../../../src/base/index.ts";
import { Subspace } from "../../../src/kv/index.ts";
import { FailureLists } from "../../../src/replicator/failures/failure-lists.ts";
import type { DocumentFailure } from "../../../src/replicator/failures/run-failures.ts";
import { StoredRunFailures } from "../../../src/replicator/failures/stored-run-failures.ts";
import {
  type JobEntry,
  parseReplication,
  REPLICATOR_CONFIG_DEFAULT,
} from "../../../src/replicator/index.ts";
import { SUBSPACES } from "../../../src/server/layout.ts";
import { type Node, openNode } from "../../support/open-node.ts";

const SPACE = Subspace.fromTuple(["replicator"]);
const BASE_ID = "b".repeat(32);
const nodes: Node[] = [];

async function open() {
  const node = await openNode();
  nodes.push(node);
  return node;
}

afterEach(async () => {
  for (const node of nodes.splice(0)) await node.stop();
});

function refused(id: string, more: Partial<DocumentFailure> = {}): DocumentFailure {
  const revision = "1-0123456789abcdef0123456789abcdef";
  const reason = "not this one";
  return { id, revision, phase: "write", status: 403, error: "forbidden", reason, ...more };
}

test("a failure keeps the time of its first attempt and counts its attempts, whatever the document's id", async () => {
  const { kv, runtime, index } = await open();
  const lists = new FailureLists(SPACE, runtime.digests, index);
  const odd = ["", "a/b", "\ud800", "\ud801", "é".repeat(3000), `${"é".repeat(3000)}x`];
  for (const nowMs of [1000, 2000]) {
    const failed = odd.map((id) => refused(id));
    await kv.transact((tx) => lists.change(tx, BASE_ID, { failed, arrived: [], nowMs }));
  }
  const page = await kv.read((tx) => lists.page(tx, BASE_ID, { limit: 100 }));
  expect(page.entries.map(({ id }) => id).sort()).toEqual([...odd].sort());
  for (const { firstMs, lastMs, tries } of page.entries) {
    expect([firstMs, lastMs, tries]).toEqual([1000, 2000, 2]);
  }
  const arrived = odd.map((id) => ({ id, revisions: [refused(id).revision] }));
  await kv.transact((tx) => lists.change(tx, BASE_ID, { failed: [], arrived, nowMs: 3000 }));
  expect(await kv.read((tx) => lists.counts(tx, BASE_ID))).toEqual([]);
  const left = await kv.read((tx) => lists.page(tx, BASE_ID, { limit: 100 }));
  expect(left.entries).toEqual([]);
});

test("retry requests are merged, and become a request for the whole list if they name too many documents", async () => {
  const { kv, runtime, index } = await open();
  const lists = new FailureLists(SPACE, runtime.digests, index);
  const long = "é".repeat(3000);
  const failed = ["a", "ab", long, `${long}x`].map((id) => refused(id));
  await kv.transact((tx) => lists.change(tx, BASE_ID, { failed, arrived: [], nowMs: 1000 }));
  const found = await kv.read((tx) => lists.ofDocuments(tx, BASE_ID, ["a", "a", long, "none"]));
  expect(found.map(({ id }) => id)).toEqual(["a", long]);

  const ask = (request: string, ids?: readonly string[]) =>
    kv.transact((tx) => lists.askRetry(tx, BASE_ID, { request, ids }));
  const asked = () => kv.read((tx) => lists.retryRequest(tx, BASE_ID));
  // A retry of the whole list is already scheduled. A later request must still apply only to its
  // own documents.
  await ask("scheduled");
  await ask("first", ["a"]);
  expect(await asked()).toEqual({ request: "first", ids: ["a"] });
  await ask("second", ["ab", "a"]);
  expect(await asked()).toEqual({ request: "second", ids: ["a", "ab"] });
  await kv.transact((tx) => lists.endRetry(tx, BASE_ID, "first"));
  expect(await asked()).toMatchObject({ request: "second" });
  const many = Array.from({ length: 99 }, (_, number) => `n${number}`);
  await ask("third", many);
  expect(await asked()).toEqual({ request: "third" });
  await ask("fourth", ["a"]);
  expect(await asked()).toEqual({ request: "fourth" });
  await kv.transact((tx) => lists.endRetry(tx, BASE_ID, "fourth"));
  expect(await asked()).toBeUndefined();
});

test("failures are counted by status and error, and a failure whose error changes is counted under the new error", async () => {
  const { kv, runtime, index } = await open();
  const lists = new FailureLists(SPACE, runtime.digests, index);
  const change = (failed: readonly DocumentFailure[]) =>
    kv.transact((tx) => lists.change(tx, BASE_ID, { failed, arrived: [], nowMs: 1000 }));
  await change([refused("a"), refused("b"), refused("c", { status: undefined, error: "odd\n" })]);
  await change([refused("b", { status: 413, error: "too_large" })]);
  const counts = await kv.read((tx) => lists.counts(tx, BASE_ID));
  expect(counts.map(({ status, error, count }) => [status, error, count])).toEqual([
    [0, "odd?", 1],
    [403, "forbidden", 1],
    [413, "too_large", 1],
  ]);
});

test("a change that would make a list exceed its limit is refused with a reason, and the list stays unchanged", async () => {
  const { kv, runtime, index } = await open();
  const lists = new FailureLists(SPACE, runtime.digests, index, 2);
  const change = (...ids: string[]) =>
    kv.transact((tx) =>
      lists.change(tx, BASE_ID, {
        failed: ids.map((id) => refused(id)),
        arrived: [],
        nowMs: 1000,
      }),
    );
  await change("a", "b");
  await expect(change("c")).rejects.toMatchObject({
    error: "too_many_failures",
    reason: "more than 2 revisions failed; the last one: forbidden: not this one",
  });
  await change("b");
  const page = await kv.read((tx) => lists.page(tx, BASE_ID, { limit: 100 }));
  expect(page.entries.map(({ id, tries }) => [id, tries])).toEqual([
    ["a", 1],
    ["b", 2],
  ]);
});

test("a job that has lost its lock can neither add failed documents to the list nor end a retry", async () => {
  const { kv, runtime, index } = await open();
  const lists = new FailureLists(SPACE, runtime.digests, index);
  let held = true;
  const log = await StoredRunFailures.open({
    runtime,
    kv,
    lists,
    baseId: BASE_ID,
    verify: async () => {
      if (!held) throw new OperationalError("JOBS_HALTED", "The job was taken away");
    },
    called: new Notifier(),
  });
  const asked = () => kv.read((tx) => lists.retryRequest(tx, BASE_ID));
  for (const request of ["first", "second"]) {
    await kv.transact((tx) => lists.askRetry(tx, BASE_ID, { request, ids: ["a"] }));
    if (request === "second") held = false;
    const ending = await log.retryDone(request).catch(errorCode);
    expect(ending).toBe(held ? undefined : "JOBS_HALTED");
    expect((await asked())?.request).toBe(held ? undefined : "second");
  }
  held = true;
  await log.record([refused("a")], []);
  expect([log.has("a"), log.has("b")]).toEqual([true, false]);
  held = false;
  const late = await log.record([refused("b")], []).catch(errorCode);
  expect(late).toBe("JOBS_HALTED");
  const page = await kv.read((tx) => lists.page(tx, BASE_ID, { limit: 100 }));
  expect(page.entries.map(({ id }) => id)).toEqual(["a"]);
});

test("a removed job's failure list is kept until it expires, and a new run after that copies the failed documents again", async () => {
  let documentIdBytesMax = 3;
  const limits = { ...REPLICATOR_CONFIG_DEFAULT.copyLimits };
  Object.defineProperty(limits, "documentIdBytesMax", { get: () => documentIdBytesMax });
  const node = await openNode({
    config: { copyLimits: limits, transientJobAgeSecMax: 0, abandonedSecMax: 0 },
  });
  nodes.push(node);
  const lists = new FailureLists(SUBSPACES.replicator, node.runtime.digests, node.index);
  node.start();
  await node.createDatabase("a");
  for (const id of ["one", "two", "three"]) await node.put("a", id, "{}");
  const run = async (): Promise<string> => {
    const body = { source: "a", target: "b", create_target: true };
    const user = { userName: null, isAdmin: true };
    const id = await node.replicator.start(parseReplication(body), user);
    await node.replicator.ended(id, new AbortController().signal);
    return id;
  };
  const listed = async (id: string): Promise<number> => {
    const { data } = (await node.replicator.find(id)) as JobEntry;
    const baseId = String(data.replicationId).split("+")[0] as string;
    return (await node.kv.read((tx) => lists.page(tx, baseId, { limit: 10 }))).entries.length;
  };
  expect(await listed(await run())).toBe(1);
  // Removes the job. The next run creates the job again before its failure list is deleted.
  await node.cleanUp.removeOldTransients();
  const again = await run();
  await node.cleanUp.once();
  expect(await node.replicator.find(again)).toBeUndefined();
  expect(await listed(await run())).toBe(1);
  expect(Object.keys(await node.content("b"))).toEqual(["one", "two"]);
  // The first clean-up records the time of the check. The second one finds that the list has
  // expired.
  await node.cleanUp.once();
  await node.cleanUp.once();
  documentIdBytesMax = 100;
  expect(await listed(await run())).toBe(0);
  expect(Object.keys(await node.content("b"))).toEqual(["one", "three", "two"]);
});
