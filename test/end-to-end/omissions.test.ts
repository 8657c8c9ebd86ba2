/** Documents that a replication omits on purpose are counted, but are not failures. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { openPair, type Pair } from "../couchdb-replicator/pair.fixture.ts";

let pair: Pair;
beforeAll(async () => {
  pair = await openPair();
});
beforeEach(() => pair.reset());
afterAll(() => pair.close());

const attached = (id: string, length: number) => ({
  _id: id,
  _attachments: { file: { content_type: "image/png", data: btoa("x".repeat(length)) } },
});

/**
 * Options that make a job read documents in bulk or individually. The source supports bulk reads.
 */
const WAYS: readonly (readonly [string, object])[] = [
  ["in bulk", {}],
  ["alone", { use_bulk_get: false }],
];

describe.each(WAYS)("read %s", (way, options) => {
  const named = (name: string): string => `${name}-${way.replace(" ", "-")}`;

  /** Replicates a database. Returns the counters of the history, and the failures. */
  async function counts(database: string, omissions: object) {
    const { status, body } = await pair.replicate(database, { ...omissions, ...options });
    expect(status).toBe(200);
    const [{ docs_written, docs_left_out, doc_write_failures }] = body.history;
    return { docs_written, docs_left_out, doc_write_failures };
  }

  test("omits documents larger than `documents.max_bytes`", async () => {
    const database = named("documents");
    // The JSON `{"text":"xx…"}` has eleven characters in addition to the value of `text`.
    const document = (id: string, length: number) => ({ _id: id, text: "x".repeat(length - 11) });
    await pair.fill(database, [document("fits", 100), document("exceeds", 101)]);
    const found = await counts(database, { documents: { max_bytes: 100 } });
    expect(found).toEqual({ docs_written: 1, docs_left_out: 1, doc_write_failures: 0 });
    expect(await pair.ids(database)).toEqual(["fits"]);
    expect(await pair.failures(database)).toEqual([]);
  });

  test("omits every document that has an attachment larger than `attachments.max_bytes`", async () => {
    const database = named("attachments");
    await pair.fill(database, [attached("fits", 100), attached("exceeds", 101), { _id: "plain" }]);
    const found = await counts(database, { attachments: { max_bytes: 100 } });
    expect(found).toEqual({ docs_written: 2, docs_left_out: 1, doc_write_failures: 0 });
    expect(await pair.ids(database)).toEqual(["fits", "plain"]);
    expect(await pair.failures(database)).toEqual([]);
  });

  test("omits deletions, even if only one branch of a document is deleted", async () => {
    const database = named("deleted");
    await pair.fill(database, [{ _id: "kept" }, { _id: "gone" }]);
    const call = (method: string, path: string, body?: object) =>
      pair.here.call(method, `/${database}${path}`, body);
    const { body: gone } = await call("GET", "/gone");
    await call("DELETE", `/gone?rev=${gone._rev}`);
    const { body: kept } = await call("GET", "/kept");
    const [start, hash] = kept._rev.split("-");
    const branch = { start: Number(start) + 1, ids: ["f".repeat(32), hash] };
    const docs = [{ _id: "kept", _rev: `2-${"f".repeat(32)}`, _deleted: true, _revisions: branch }];
    await call("POST", "/_bulk_docs", { new_edits: false, docs });
    // The winner is the live branch.
    const live = { start: 2, ids: ["0".repeat(32), hash] };
    const alive = [{ _id: "kept", _rev: `2-${"0".repeat(32)}`, _revisions: live }];
    await call("POST", "/_bulk_docs", { new_edits: false, docs: alive });
    const found = await counts(database, { deleted: "skip" });
    expect(found).toEqual({ docs_written: 1, docs_left_out: 2, doc_write_failures: 0 });
    const { body: leaves } = await pair.there.call("POST", `/${database}/_bulk_get`, {
      docs: [{ id: "kept" }],
    });
    expect(leaves.results[0].docs.map(({ ok }: { ok: { _rev: string } }) => ok._rev)).toEqual([
      `2-${"0".repeat(32)}`,
    ]);
    expect((await pair.there.call("GET", `/${database}/gone`)).body.reason).toBe("missing");
  });
});

test("if several leaves replace a revision before it is read, the excluded leaves are omitted", async () => {
  await pair.fill("branches", [attached("kept", 10)]);
  const call = (method: string, path: string, body?: object) =>
    pair.here.call(method, `/branches${path}`, body);
  const { body: first } = await call("GET", "/kept");
  const [, hash] = first._rev.split("-");
  const leaf = (digit: string, length: number) => ({
    ...attached("kept", length),
    _rev: `2-${digit.repeat(32)}`,
    _revisions: { start: 2, ids: [digit.repeat(32), hash] },
  });
  const docs = [leaf("0", 10), leaf("f", 101)];
  let readCount = 0;
  pair.source.intercept(async (request, forward) => {
    if (request.path.includes("_bulk_get") && readCount++ === 0) {
      await call("POST", "/_bulk_docs", { new_edits: false, docs });
    }
    return forward(request);
  });
  const { body } = await pair.replicate("branches", { attachments: { max_bytes: 100 } });
  expect(readCount).toBeGreaterThan(0);
  expect(body.history[0].docs_left_out).toBeGreaterThan(0);
  const { body: arrived } = await pair.there.call("GET", "/branches/kept?conflicts=true");
  expect(arrived).toMatchObject({ _rev: `2-${"0".repeat(32)}` });
  expect(arrived).not.toHaveProperty("_conflicts");
});

test("an attachment that exceeds the limit is not requested if the source reports its length", async () => {
  await pair.fill("spared", [attached("exceeds", 10_000), { _id: "plain" }]);
  await pair.replicate("spared", { attachments: { max_bytes: 100 } });
  const alone = pair.source.requests.filter(({ path }) => path.includes("open_revs"));
  expect(alone).toEqual([]);
  expect(await pair.ids("spared")).toEqual(["plain"]);
});

test("the status shows the number of omitted documents, summed over runs", async () => {
  await pair.fill("status", [{ _id: "large", text: "x".repeat(1_000) }]);
  const document = { ...pair.body("status"), documents: { max_bytes: 100 } };
  await pair.here.call("PUT", "/_replicator/status-job", { ...document, continuous: true });
  const leftOut = (count: number) =>
    pair.here.onceAnswered(
      () => pair.here.call("GET", "/_scheduler/docs/_replicator/status-job"),
      ({ body }) => body.info?.docs_left_out === count,
    );
  await leftOut(1);
  await pair.here.call("PUT", "/status/larger", { text: "x".repeat(1_000) });
  await leftOut(2);
  const { body: other } = await pair.here.call("GET", "/_scheduler/docs/_replicator/status-job");
  expect(other.info).toMatchObject({ docs_written: 0, doc_write_failures: 0 });
});

test("a replication with omissions has different checkpoints from a replication without them", async () => {
  await pair.fill("own", [{ _id: "large", text: "x".repeat(1_000) }]);
  await pair.replicate("own", { documents: { max_bytes: 100 } });
  expect(await pair.ids("own")).toEqual([]);
  await pair.replicate("own");
  expect(await pair.ids("own")).toEqual(["large"]);
});

test.each([
  [{ deleted: "no" }, '`deleted` must be one of copy, skip, but is "no"'],
  [{ attachments: 5 }, '`attachments` must be an object like {"max_bytes": 1000000}, but is 5'],
  [
    { attachments: { max: 5 } },
    '`attachments` has the unknown member "max"; the only member accepted is `max_bytes`',
  ],
  [
    { documents: { max_bytes: -1 } },
    "`documents.max_bytes` must be an integer of at least 0, but is -1",
  ],
  [{ documents: {} }, "`documents.max_bytes` must be an integer of at least 0, but is undefined"],
])("%j is refused", async (member, reason) => {
  const { status, body } = await pair.replicate("any", member);
  expect([status, body.reason]).toEqual([400, reason]);
});
