/**
 * Replication of documents that exceed a limit of the target, of documents with many leaves, with
 * filters, and with creation of the target.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { compare } from "../support/compare.ts";
import { ATTACHED, count, documents, openPair, type Pair, write } from "./pair.fixture.ts";

let pair: Pair;
beforeAll(async () => {
  pair = await openPair("[replicator]\nretries_per_request = 1\n");
});
beforeEach(() => pair.reset());
afterAll(() => pair.close());

async function differences(database: string): Promise<readonly string[]> {
  const comparison = await compare(`${pair.here.url}/${database}`, `${pair.there.url}/${database}`);
  return comparison.differences;
}

describe("attachments_too_large", () => {
  /**
   * Makes the target enforce this size limit for attachments. Like CouchDB, it refuses a whole
   * request that contains a larger attachment.
   */
  function takeAttachmentsOf(bytesMax: number): void {
    pair.target.intercept(async (request, forward) => {
      const text = request.body.toString();
      const streamed = Number(/\r\nContent-Length: (\d+)/.exec(text)?.[1] ?? 0);
      const inline = Buffer.from(/"data":"([^"]*)"/.exec(text)?.[1] ?? "", "base64").length;
      if (Math.max(streamed, inline) <= bytesMax) return forward(request);
      return { status: 413, body: '{"error":"attachment_too_large","reason":"att"}' };
    });
  }
  const data = Buffer.alloc(1000, "x").toString("base64");
  const docs = [{ _id: "large", _attachments: { att: { content_type: "app/binary", data } } }];

  test.each([
    ["should_succeed", 1000, ["large"]],
    ["should_fail", 999, []],
  ])(
    "%s: the job completes if the target accepts attachments of up to %i bytes",
    async (name, bytesMax, arrived) => {
      const database = `attachments-${bytesMax}`;
      await pair.fill(database, docs);
      takeAttachmentsOf(bytesMax);
      expect((await pair.replicate(database)).body.ok).toBe(true);
      expect(await pair.ids(database)).toEqual(arrived);
      const listed = name === "should_fail" ? ["large: 413 attachment_too_large: att"] : [];
      expect(await pair.failures(database)).toEqual(listed);
    },
  );
});

describe("id_too_long", () => {
  test.each([
    ["should_succeed", 5, ["éabc"]],
    ["should_fail", 4, []],
  ])(
    "%s: a document id of 5 bytes with max_document_id_length = %i",
    async (name, bytesMax, arrived) => {
      const setting = "/_node/_local/_config/replicator/max_document_id_length";
      await pair.here.call("PUT", setting, `"${bytesMax}"`);
      const database = `ids-${bytesMax}`;
      await pair.fill(database, [{ _id: "éabc" }]);
      const { body } = await pair.replicate(database);
      expect(body.history[0].doc_write_failures).toBe(name === "should_fail" ? 1 : 0);
      expect(await pair.ids(database)).toEqual(arrived);
      const reason = "document_id_too_long: the id is longer than 4 bytes";
      const listed = name === "should_fail" ? [`éabc: null ${reason}`] : [];
      expect(await pair.failures(database)).toEqual(listed);
      await pair.here.call("DELETE", setting);
    },
  );
});

describe("small_max_request_size", () => {
  const setting = "/_node/_local/_config/chttpd/max_http_request_size";
  beforeAll(async () => {
    await pair.there.call("PUT", setting, '"10000"');
  });
  afterAll(async () => {
    await pair.there.call("DELETE", setting);
  });
  const text = (length: number) => "x".repeat(length);
  const attached = (length: number) => ({
    _attachments: { att: { content_type: "app/binary", data: btoa(text(length)) } },
  });

  test("reduce_max_request_size_test, all_docs: a batch that is too large is split", async () => {
    await pair.fill("small-all", documents(5, { text: text(3000) }));
    expect((await pair.replicate("small-all")).body.history[0].docs_written).toBe(5);
    expect(count(pair.target, "POST", /^_bulk_docs/)).toBeGreaterThan(1);
    expect(await differences("small-all")).toEqual([]);
  });

  test("one: a document that is too large is listed as failed, and the other documents arrive", async () => {
    await pair.fill("small-one", [...documents(3), { _id: "large", text: text(12_000) }]);
    const { body } = await pair.replicate("small-one");
    expect(body.history[0]).toMatchObject({ docs_written: 3, doc_write_failures: 1 });
    expect(await pair.ids("small-one")).toEqual(["doc-0", "doc-1", "doc-2"]);
    expect(await pair.failures("small-one")).toEqual([expect.stringMatching(/^large: 413 /)]);
  });

  test("one_with_attachment: a document whose attachment is too large is listed as failed, and the other documents arrive", async () => {
    const docs = [...documents(3, attached(100)), { _id: "large", ...attached(70_000) }];
    await pair.fill("small-attached", docs);
    const { body } = await pair.replicate("small-attached");
    expect(body.history[0]).toMatchObject({ docs_written: 3, doc_write_failures: 1 });
    expect(await pair.ids("small-attached")).toEqual(["doc-0", "doc-1", "doc-2"]);
    expect(await pair.failures("small-attached")).toEqual([expect.stringMatching(/^large: 413 /)]);
  });
});

const hash = (number: number): string => number.toString(16).padStart(32, "0");

/** Returns `leafCount` leaves of one document. */
function branches(_id: string, leafCount: number, more: object = {}): object[] {
  return Array.from({ length: leafCount }, (_, number) => ({
    _id,
    _rev: `2-${hash(number + 1)}`,
    _revisions: { start: 2, ids: [hash(number + 1), hash(0)] },
    number,
    ...more,
  }));
}

describe("many_leaves", () => {
  async function fill(database: string, more: object = {}): Promise<void> {
    await pair.fill(database, []);
    const docs = [
      ...branches("ten", 10, more),
      ...branches("_design/ten", 10, more),
      ...branches("many", 210, more),
    ];
    await pair.here.call("POST", `/${database}/_bulk_docs`, { new_edits: false, docs });
  }

  test("should_replicate_doc_with_many_leaves: all leaves arrive, and later their successors with attachments", async () => {
    await fill("leaves");
    const { body } = await pair.replicate("leaves");
    expect(body.history[0]).toMatchObject({ missing_found: 230, docs_written: 230 });
    expect(await differences("leaves")).toEqual([]);
    // Each leaf gets a successor with two attachments.
    const docs = branches("many", 210, ATTACHED).map((doc, number) => ({
      ...doc,
      _rev: `3-${hash(number + 1000)}`,
      _revisions: { start: 3, ids: [hash(number + 1000), hash(number + 1), hash(0)] },
      _attachments: { ...ATTACHED._attachments, more: { data: btoa(String(number)) } },
    }));
    await pair.here.call("POST", "/leaves/_bulk_docs", { new_edits: false, docs });
    const { body: again } = await pair.replicate("leaves");
    expect(again.history[0].docs_written).toBe(440);
    expect(await differences("leaves")).toEqual([]);
  });

  test("should_replicate_winning_revs_only: only the winning leaf of each document arrives", async () => {
    await fill("winners");
    const { body } = await pair.replicate("winners", { winning_revs_only: true });
    expect(body.history[0]).toMatchObject({ missing_found: 3, docs_written: 3 });
    for (const id of ["ten", "many", "_design/ten"]) {
      const winner = await pair.there.call("GET", `/winners/${id}?conflicts=true`);
      const original = await pair.here.call("GET", `/winners/${id}`);
      expect(winner.body).toEqual(original.body);
    }
  });
});

test("should_replicate_docs_with_missed_att_stubs: a target that refuses attachment stubs gets the complete attachments", async () => {
  const database = "stubs";
  await pair.fill(database, [{ _id: "doc", ...ATTACHED }]);
  await pair.there.call("PUT", `/${database}/_revs_limit`, "3");
  await pair.replicate(database);
  for (let number = 0; number < 6; number++) {
    const { body } = await pair.here.call("GET", `/${database}/doc`);
    await pair.here.call("PUT", `/${database}/doc`, { ...body, number });
  }
  // The simulated target has an ancestor of the document but has lost the ancestor's attachments.
  // It responds to a stub as CouchDB would.
  let refused = 0;
  pair.target.intercept(async (request, forward) => {
    const isStub = request.method === "PUT" && request.body.includes('"stub":true');
    if (!isStub) return forward(request);
    refused++;
    return { status: 412, body: '{"error":"missing_stub","reason":"invalid attachment stub"}' };
  });
  const { body } = await pair.replicate(database);
  expect([refused, body.history[0].doc_write_failures]).toEqual([1, 0]);
  expect(await differences(database)).toEqual([]);
});

test("should_replicate_attachments, large_atts: attachments of several megabytes of text or bytes arrive", async () => {
  await pair.fill("large", []);
  const bytes = Buffer.from(
    Uint8Array.from({ length: 6_600_000 }, (_, index) => (index * 31) % 251),
  );
  const attachments = { text: Buffer.alloc(2 * 1024 * 1024, "text "), bytes };
  for (const id of ["one", "two"]) {
    let rev = "";
    for (const [name, data] of Object.entries(attachments)) {
      const response = await fetch(`${pair.here.url}/large/${id}/${name}${rev && `?rev=${rev}`}`, {
        method: "PUT",
        headers: { "content-type": name === "text" ? "text/plain" : "application/binary" },
        body: data,
      });
      rev = ((await response.json()) as { rev: string }).rev;
    }
  }
  expect((await pair.replicate("large")).body.history[0].docs_written).toBe(2);
  expect(await differences("large")).toEqual([]);
  const copy = await fetch(`${pair.there.url}/large/two/bytes`);
  expect(Buffer.from(await copy.arrayBuffer()).equals(bytes)).toBe(true);
});

describe("selections", () => {
  const docs = [...documents(4), { _id: "_design/foo", language: "javascript" }];

  test("should_replicate_with_selector: only matching documents arrive", async () => {
    await pair.fill("selector", docs);
    const { body } = await pair.replicate("selector", { selector: { _id: "doc-2" } });
    expect(body.history[0].docs_written).toBe(1);
    expect(await pair.ids("selector")).toEqual(["doc-2"]);
  });

  test.each([
    ["t_should_replicate_with_ddoc_ids", ["doc-1", "_design/foo"], ["_design/foo", "doc-1"]],
    ["an id with escapes", ["_design%2Ffoo"], ["_design/foo"]],
    ["an empty id", ["", "doc-1"], ["doc-1"]],
    ["ids that are not there", ["doc-1", "nosuch", "doc-1"], ["doc-1"]],
  ])("replication by doc ids: %s", async (name, ids, arrived) => {
    const database = `by-ids-${name.replaceAll(/[^a-z]/g, "")}`;
    await pair.fill(database, docs);
    const { body } = await pair.replicate(database, { doc_ids: ids });
    expect(await pair.ids(database)).toEqual(arrived);
    // Statistics that CouchDB adds to the response for a replication by document ids.
    expect(body).toMatchObject({
      docs_read: arrived.length,
      docs_written: arrived.length,
      doc_write_failures: 0,
      start_time: expect.any(String),
      end_time: expect.any(String),
    });
  });

  test.each([[[]], [[""]], [["nosuch"]]])(
    "replication by doc ids: the ids %j select no document",
    async (ids) => {
      const database = `by-no-ids-${ids.join().length}-${ids.length}`;
      await pair.fill(database, docs);
      const { body } = await pair.replicate(database, { doc_ids: ids });
      expect([body.ok, body.no_changes]).toEqual([true, true]);
      expect(await pair.ids(database)).toEqual([]);
    },
  );

  test("replication by doc ids: a replication document and a _replicate body accept a list of 5,000 ids", async () => {
    const ids = Array.from({ length: 5000 }, (_, number) => `a-rather-long-name-${number}`);
    const others = documents(10);
    await pair.fill("by-many-ids", [...ids.map((id) => ({ _id: id })), ...others]);
    const { body } = await pair.replicate("by-many-ids", { doc_ids: ids });
    expect(body.docs_written).toBe(5000);
    expect(await pair.ids("by-many-ids")).toEqual([...ids].sort());
    const document = "/_replicator/by-many-ids";
    const more = { target: "by-many-ids-copy", create_target: true, doc_ids: ids };
    const written = await pair.here.call("PUT", document, pair.body("by-many-ids", more));
    expect(written.status).toBe(201);
    const { body: ended } = await pair.here.onceAnswered(
      () => pair.here.call("GET", `/_scheduler/docs${document}`),
      (answer) => answer.body.state === "completed",
    );
    expect(ended.info.docs_written).toBe(5000);
  });

  test("replication by doc ids: a second run copies an update of a document that has a conflict", async () => {
    await pair.fill("by-ids-twice", docs);
    const more = { doc_ids: ["doc-1"] };
    await pair.replicate("by-ids-twice", more);
    const { body: doc } = await pair.here.call("GET", "/by-ids-twice/doc-1");
    await pair.here.call("PUT", "/by-ids-twice/doc-1", { ...doc, updated: true });
    await pair.there.call("PUT", "/by-ids-twice/doc-1", { ...doc, other: true });
    const { body } = await pair.replicate("by-ids-twice", more);
    expect(body).toMatchObject({ docs_read: 2, docs_written: 2 });
    const { body: copy } = await pair.there.call("GET", "/by-ids-twice/doc-1?conflicts=true");
    expect(copy._conflicts).toHaveLength(1);
  });
});

describe("create_target_with_options", () => {
  test.each([
    ["should_create_target_with_q_4", { q: "4" }, "?q=4"],
    ["should_create_target_with_q_2_n_1", { q: "2", n: "1" }, "?q=2&n=1"],
    ["should_create_target_with_default", {}, ""],
  ])("%s", async (name, parameters, query) => {
    const database = name.replaceAll("_", "-");
    await pair.here.call("PUT", `/${database}`);
    await write(pair.here, database, documents(1));
    const more = { create_target: true, create_target_params: parameters };
    expect((await pair.replicate(database, more)).status).toBe(200);
    const created = pair.target.requests.find(({ method }) => method === "PUT");
    expect(created?.path).toBe(`/${database}/${query}`);
    expect(await pair.ids(database)).toEqual(["doc-0"]);
  });

  test("numbers in create_target_params are sent with the digits in which they were written", async () => {
    await pair.here.call("PUT", "/exact-parameters");
    await write(pair.here, "exact-parameters", documents(1));
    const parameters = '{"x":369553424691494913,"y":1.0,"z":-0.0,"b":true}';
    const members = `"create_target":true,"create_target_params":${parameters}`;
    const body = JSON.stringify(pair.body("exact-parameters")).replace("{", `{${members},`);
    await pair.here.call("POST", "/_replicate", body);
    const created = pair.target.requests.find(({ method }) => method === "PUT");
    expect(created?.path).toBe("/exact-parameters/?x=369553424691494913&y=1.0&z=-0.0&b=true");
  });

  test("should_not_create_target_with_q_any: the target is not created without create_target", async () => {
    await pair.here.call("PUT", "/not-made");
    const more = { create_target: false, create_target_params: { q: "4" } };
    const answer = await pair.replicate("not-made", more);
    expect([answer.status, answer.body.error]).toEqual([500, "db_not_found"]);
    expect((await pair.there.call("GET", "/not-made")).status).toBe(404);
  });
});

test("should_populate_replicate_compact: all writes that occur during a continuous job arrive", async () => {
  await pair.fill("busy", documents(50));
  const { body } = await pair.replicate("busy", { continuous: true });
  for (let round = 1; round <= 5; round++) {
    const { body: all } = await pair.here.call("GET", "/busy/_all_docs");
    const docs = all.rows.map(({ id, value }: { id: string; value: { rev: string } }) => {
      return { _id: id, _rev: value.rev, round };
    });
    await write(pair.here, "busy", docs);
    expect((await pair.here.call("POST", "/busy/_compact")).status).toBe(202);
  }
  await pair.here.onceAnswered(
    () => differences("busy"),
    ({ length }) => length === 0,
  );
  await pair.here.call("POST", "/_replicate", { replication_id: body._local_id, cancel: true });
});
