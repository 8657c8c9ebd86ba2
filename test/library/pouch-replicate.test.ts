/** The adapter for users of `PouchDB.replicate`. */
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  pouchReplicate,
  ReplicationError,
  type TandemNode,
} from "../../src/library/entries/index.ts";
import { deferred } from "../support/deferred.ts";
import { call, fill, LibraryNodes } from "./library.fixture.ts";

const nodes = new LibraryNodes();
let node: TandemNode;
let url: string;

beforeAll(async () => {
  node = await nodes.open();
  url = await node.listen({ port: 0 });
  await fill(node, "films", 10);
});
afterAll(() => nodes.close());

test("a replication creates its target, and reports changes and completion", async () => {
  const changes: number[] = [];
  let completed: unknown;
  const replication = pouchReplicate(`${url}/films`, `${url}/copy`, { batch_size: 4 })
    .on("change", ({ docs_written }) => changes.push(docs_written))
    .on("complete", (result) => {
      completed = result;
    });
  const result = await replication;
  expect(result).toMatchObject({ ok: true, docs_written: 10, errors: [], status: "complete" });
  expect(completed).toBe(result);
  expect(changes.at(-1)).toBe(10);
  expect(changes.length).toBeGreaterThan(1);
});

test("a live replication pauses, becomes active again, and is cancelled", async () => {
  await fill(node, "live", 2);
  const [paused, active, pausedAgain] = [deferred<void>(), deferred<void>(), deferred<void>()];
  const replication = pouchReplicate(`${url}/live`, node.databases.get("live-copy"), {
    live: true,
  });
  replication.once("paused", (error) => {
    expect(error).toBeUndefined();
    replication.once("active", () => active.resolve());
    replication.once("paused", () => pausedAgain.resolve());
    paused.resolve();
  });
  await paused.promise;
  await call(node, "PUT", "/live/later", {});
  await active.promise;
  await pausedAgain.promise;
  replication.cancel();
  expect(await replication).toMatchObject({ status: "cancelled", docs_written: 3 });
});

test("a replication reports rejected documents as denied", async () => {
  const validate = "function (doc) { if (doc.index === 3) throw { forbidden: 'not three' }; }";
  await node.databases.get("strict").create();
  await call(node, "PUT", "/strict/_design/v", { validate_doc_update: validate });
  const denied: unknown[] = [];
  const result = await pouchReplicate(`${url}/films`, `${url}/strict`, {
    selector: { index: { $gt: 1 } },
  }).on("denied", (failure) => denied.push(failure));
  expect(denied).toMatchObject([{ id: "doc-3", reason: "not three" }]);
  expect(result).toMatchObject({ ok: false, doc_write_failures: 1, docs_written: 7 });
});

test("a failure emits an error and rejects the promise; without a listener, it only rejects", async () => {
  const errors: unknown[] = [];
  const options = { retries_per_request: 0 };
  const failed = pouchReplicate(`${url}/nosuch`, `${url}/x`, options);
  failed.on("error", (error) => errors.push(error));
  await expect(failed).rejects.toMatchObject({ error: "db_not_found", status: 404 });
  expect(errors).toEqual([expect.any(ReplicationError)]);
  await expect(pouchReplicate(`${url}/nosuch`, `${url}/x`, options)).rejects.toThrow();
});

test("a replication retries with the given pauses, and reports the error while it waits", async () => {
  const delays: number[] = [];
  const reasons: (string | undefined)[] = [];
  const replication = pouchReplicate(`${url}/soon`, `${url}/soon-copy`, {
    retry: true,
    retries_per_request: 0,
    back_off_function(delayMs) {
      delays.push(delayMs);
      return delayMs + 1;
    },
  });
  replication.on("paused", async (error) => {
    reasons.push(error?.error);
    if (reasons.length === 1) await fill(node, "soon", 1);
  });
  expect(await replication).toMatchObject({ ok: true, docs_written: 1 });
  expect(reasons[0]).toBe("db_not_found");
  expect(delays.slice(0, 1)).toEqual([0]);
});

test("the adapter rejects PouchDB's options that have no counterpart", async () => {
  for (const options of [{ checkpoint: "source" }, { filter: () => true }] as object[]) {
    const replication = pouchReplicate(`${url}/films`, `${url}/other`, options);
    await expect(replication).rejects.toMatchObject({ status: 400 });
  }
});
