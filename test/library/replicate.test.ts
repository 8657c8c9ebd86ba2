/** Replications and comparisons in the caller's process. */
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  ReplicationError,
  type ReplicationProgress,
  replicate,
  type TandemNode,
  verify,
} from "../../src/library/entries/index.ts";
import { call, fill, LibraryNodes } from "./library.fixture.ts";

const nodes = new LibraryNodes();
let node: TandemNode;
let url: string;

beforeAll(async () => {
  node = await nodes.open();
  url = await node.listen({ port: 0 });
  await fill(node, "films", 40);
});
afterAll(() => nodes.close());

const database = (name: string) => node.databases.get(name);

test.each([
  ["databases of a node", () => [database("films"), database("copy-1")] as const],
  ["URLs", () => [`${url}/films`, new URL(`${url}/copy-2`)] as const],
  [
    "an object and a database of a node",
    () =>
      [{ url: new URL(`${url}/films`), headers: { "x-test": "1" } }, database("copy-3")] as const,
  ],
])(
  "a replication between %s copies all documents, and the next one resumes from the checkpoint",
  async (_, sides) => {
    const [source, target] = sides();
    const result = await replicate(source, target, { create_target: true });
    expect(result).toMatchObject({
      ok: true,
      docs_read: 40,
      docs_written: 40,
      doc_write_failures: 0,
      stopped: false,
      failures: [],
    });
    expect(result.history).toHaveLength(1);
    expect(result.source_last_seq).toBe(result.history?.[0]?.recorded_seq);
    expect(await verify(source, target)).toMatchObject({ ok: true, documents: 40, differences: 0 });
    const again = await replicate(source, target);
    expect(again).toMatchObject({ ok: true, no_changes: true, docs_written: 0 });
  },
);

test("iterating over a replication yields its progress, and ends when the replication ends", async () => {
  const replication = replicate(database("films"), database("iterated"), { create_target: true });
  const shown: ReplicationProgress[] = [];
  for await (const progress of replication) shown.push(progress);
  expect(shown.at(-1)).toMatchObject({ docs_written: 40, caught_up: true, changes_pending: 0 });
  const written = shown.map(({ docs_written }) => docs_written);
  expect(written).toEqual(written.toSorted((left, right) => left - right));
  expect((await replication).docs_written).toBe(40);
});

test("a continuous replication reports that it has caught up, copies later changes, and stops", async () => {
  await fill(node, "followed", 3);
  const replication = replicate(`${url}/followed`, database("follower"), {
    continuous: true,
    create_target: true,
  });
  const progress = replication[Symbol.asyncIterator]();
  const until = async (passes: (progress: ReplicationProgress) => boolean): Promise<void> => {
    for (;;) {
      const { done, value } = await progress.next();
      if (done === true) throw new Error("the replication has ended");
      if (passes(value)) return;
    }
  };
  await until(({ caught_up, docs_written }) => caught_up && docs_written === 3);
  await call(node, "PUT", "/followed/later", {});
  await until(({ caught_up, docs_written }) => caught_up && docs_written === 4);
  const result = await replication.stop();
  expect(result).toMatchObject({ ok: true, stopped: true, docs_written: 4 });
  expect(await replication).toBe(result);
  // The stopped replication has written a last checkpoint.
  const again = await replicate(`${url}/followed`, database("follower"));
  expect(again).toMatchObject({ no_changes: true });
});

test("aborting the signal stops a replication after a last checkpoint, and the promise rejects with the signal's reason", async () => {
  const controller = new AbortController();
  const reason = new Error("enough");
  const options = { continuous: true, create_target: true, signal: controller.signal };
  const replication = replicate(database("films"), database("aborted"), options);
  for await (const { caught_up } of replication) if (caught_up) break;
  controller.abort(reason);
  await expect(replication).rejects.toBe(reason);
  const again = await replicate(database("films"), database("aborted"));
  expect(again).toMatchObject({ no_changes: true });
  await expect(replicate(database("films"), database("aborted"), options)).rejects.toBe(reason);
});

test("a failed replication rejects with CouchDB's error, reason and status", async () => {
  const failure = await replicate(`${url}/nosuch`, database("nothing"), {
    create_target: true,
    retries_per_request: 0,
  }).catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(ReplicationError);
  expect(failure).toMatchObject({ error: "db_not_found", status: 404 });
  const { reason, message } = failure as ReplicationError;
  expect(message).toBe(`db_not_found: ${reason}`);
  await expect(verify(`${url}/nosuch`, database("films"))).rejects.toMatchObject({ status: 404 });
});

test("the iteration over the progress of a failed replication throws its error", async () => {
  const replication = replicate(`${url}/nosuch`, database("nothing"), { create_target: true });
  const iterating = (async () => {
    for await (const _ of replication);
  })();
  await expect(iterating).rejects.toBeInstanceOf(ReplicationError);
});

test.each([
  ["films", "must be an http:// or https:// URL, or a database of an open node"],
  ["ftp://example.com/films", "must be an http:// or https:// URL"],
])("a replication rejects the source %j", async (source, reason) => {
  const failure = await replicate(source, database("x")).catch((error: unknown) => error);
  expect(failure).toMatchObject({ error: "bad_request", status: 400 });
  expect((failure as ReplicationError).reason).toContain(reason);
});

test("a replication rejects invalid options, including a schedule", async () => {
  const invalid = { doc_ids: ["a"], selector: {} };
  for (const options of [invalid, { schedule: "every 1h" }, { worker_processes: 0 }]) {
    const replication = replicate(database("films"), database("x"), options);
    await expect(replication).rejects.toMatchObject({ status: 400 });
  }
});

test("a replication with a selector copies the selected documents", async () => {
  const options = { create_target: true, selector: { index: { $lt: 5 } } };
  const result = await replicate(database("films"), database("few"), options);
  expect(result).toMatchObject({ ok: true, docs_written: 5 });
  const { differences } = await verify(database("films"), database("few"));
  expect(differences).toBe(35);
});

test("a replication lists the revisions that the target rejects", async () => {
  const validate = "function (doc) { if (doc.index === 7) throw { forbidden: 'not seven' }; }";
  await database("strict").create();
  await call(node, "PUT", "/strict/_design/v", { validate_doc_update: validate });
  const result = await replicate(database("films"), `${url}/strict`);
  expect(result).toMatchObject({ ok: false, docs_written: 39, doc_write_failures: 1 });
  expect(result.failures).toMatchObject([
    { id: "doc-7", phase: "write", status: 403, error: "forbidden", reason: "not seven" },
  ]);
});

test("a replication runs again after an error if requested, and reports the error", async () => {
  const pauses: number[] = [];
  const replication = replicate(`${url}/not-yet`, database("retried"), {
    create_target: true,
    retries_per_request: 0,
    retry: (failureCount) => {
      pauses.push(failureCount);
      return 1;
    },
  });
  const failures: unknown[] = [];
  for await (const { failure } of replication) {
    if (failure === null) continue;
    failures.push(failure);
    await fill(node, "not-yet", 2).catch(() => {});
  }
  expect(await replication).toMatchObject({ ok: true, docs_written: 2 });
  expect(failures[0]).toMatchObject({ error: "db_not_found" });
  expect(pauses[0]).toBe(1);
});

test("verify reports differences, and can copy documents that the target lacks", async () => {
  await replicate(database("films"), database("damaged"), { create_target: true });
  await call(node, "PUT", "/films/new-film", { index: 100 });
  const seen: string[] = [];
  const result = await verify(database("films"), `${url}/damaged`, {
    onDifference: ({ id, reason }) => seen.push(`${id} ${reason}`),
  });
  expect(result).toMatchObject({ ok: false, differences: 1 });
  expect(seen).toEqual(["new-film is not on the target"]);
  const comparison = verify(database("films"), database("damaged"), { repair: true });
  let last = 0;
  for await (const { documents } of comparison) last = documents;
  expect(await comparison).toMatchObject({ ok: true, repaired: 1, documents: last });
});
