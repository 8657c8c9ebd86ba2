/**
 * `_index`, and queries that use indexes. Where no response was recorded, the expected response
 * follows from CouchDB's source code (`mango_idx`, `mango_cursor`).
 */
import { describe, expect, test } from "vitest";
import { Utf8Text } from "../../../src/base/index.ts";
import { type DatabaseHook, DatabaseRegistry } from "../../../src/databases/index.ts";
import { createSystemRuntime } from "../../../src/host/index.ts";
import { MemoryEngine, Subspace } from "../../../src/kv/index.ts";
import { countingEngine } from "../../support/kv/counting-engine.ts";
import { type Asked, openFilms } from "../api.fixture.ts";

const ALL_DOCUMENTS = {
  ddoc: null,
  name: "_all_docs",
  type: "special",
  def: { fields: [{ _id: "asc" }] },
};

async function openIndexed({
  fields = [],
  ...options
}: {
  readonly fields?: readonly (readonly string[])[];
} & Parameters<typeof openFilms>[0] = {}) {
  const api = await openFilms(options);
  const docs = Array.from({ length: 30 }, (_, n) => ({
    _id: `d${10 + n}`,
    n: n % 10,
    even: n % 2 === 0,
    o: { x: n },
  }));
  await api.ask("POST /films/_bulk_docs", { body: { docs: [...docs, { _id: "none" }] } });
  for (const each of fields) await makeIndex(api, each);
  return api;
}

async function makeIndex({ ask }: Asked, fields: readonly string[], filter?: object) {
  const name = fields.join("-");
  const index = {
    fields,
    ...(filter === undefined ? {} : { partial_filter_selector: filter }),
  };
  const answer = await ask("POST /films/_index", { body: { index, ddoc: name, name } });
  expect(answer).toMatchObject({ status: 200, json: { result: "created" } });
}

async function find({ ask }: Asked, body: object) {
  const answer = await ask("POST /films/_find", { body });
  expect(answer.status, answer.text).toBe(200);
  const { docs } = answer.json;
  return { ...answer.json, ids: docs.map(({ _id }: { readonly _id: string }) => _id) };
}

describe("_index", () => {
  test("writes the same design document as CouchDB", async () => {
    const { ask } = await openFilms();
    const index = { fields: ["a", { b: "asc" }], partial_filter_selector: { c: 1 } };
    await ask("POST /films/_index", { body: { index, ddoc: "d", name: "i" } });
    const { json } = await ask("GET /films/_design/d");
    expect(json).toEqual({
      _id: "_design/d",
      _rev: json._rev,
      language: "query",
      views: {
        i: {
          map: { fields: { a: "asc", b: "asc" }, partial_filter_selector: { c: { $eq: 1 } } },
          reduce: "_count",
          options: { def: index },
        },
      },
    });
  });

  test("lists the primary index first, then the others by design document and name", async () => {
    const api = await openFilms();
    for (const fields of [["b"], ["a", "b"], ["a"]]) await makeIndex(api, fields);
    const { json } = await api.ask("GET /films/_index");
    expect(json.total_rows).toBe(4);
    expect(json.indexes[0]).toEqual(ALL_DOCUMENTS);
    expect(json.indexes[2]).toEqual({
      ddoc: "_design/a-b",
      name: "a-b",
      type: "json",
      partitioned: false,
      def: { fields: [{ a: "asc" }, { b: "asc" }] },
    });
    expect(json.indexes.map(({ name }: { readonly name: string }) => name).slice(1)).toEqual([
      "a",
      "a-b",
      "b",
    ]);
    const page = await api.ask("GET /films/_index?skip=1&limit=1");
    expect(page.json.indexes).toMatchObject([{ name: "a" }]);
    expect((await api.ask("GET /films/_index?limit=0")).status).toBe(400);
  });

  test("keeps several indexes in one design document, and removes the document together with its last index", async () => {
    const { ask } = await openFilms();
    for (const name of ["a", "b"]) {
      await ask("POST /films/_index", { body: { index: { fields: [name] }, ddoc: "d", name } });
    }
    expect((await ask("DELETE /films/_index/_design/d/json/a")).json).toEqual({ ok: true });
    expect((await ask("GET /films/_design/d")).json.views).toEqual({ b: expect.anything() });
    expect((await ask("DELETE /films/_index/d/json/a")).status).toBe(404);
    expect((await ask("DELETE /films/_index/d/text/b")).status).toBe(404);
    expect((await ask("DELETE /films/_index/_design%2Fd/json/nosuch")).status).toBe(404);
    const body = { docids: ["d", "_design/e"] };
    expect((await ask("POST /films/_index/_bulk_delete", { body })).json).toEqual({
      success: [{ id: "_design/d", ok: true }],
      fail: [{ id: "_design/e", error: "not_found" }],
    });
    expect((await ask("GET /films/_design/d")).status).toBe(404);
    expect((await ask("GET /films/_index")).json.total_rows).toBe(1);
  });

  test.each([
    [{ index: { fields: ["a"] }, type: "text" }, 503, "required index service unavailable"],
    [{ index: { fields: ["a"] }, type: "geo" }, 400, "invalid_index"],
    [{ index: { fields: [] } }, 400, "invalid_index"],
    [{ index: { fields: [{ a: "asc" }, { b: "desc" }] } }, 400, "unsupported_mixed_sort"],
    [{ index: { fields: ["a"], x: 1 } }, 400, "invalid_key"],
    [{ index: {} }, 400, "missing_required_key"],
    [{ index: 1 }, 400, "invalid_index"],
    [{}, 400, "missing_required_key"],
    [{ index: { fields: ["a"] }, name: "" }, 400, "invalid_empty_string"],
    [{ index: { fields: ["a"] }, ddoc: 1 }, 400, "invalid_string"],
    [{ index: { fields: ["a"] }, partitioned: true }, 400, "bad_request"],
    [
      { index: { fields: ["a"], partial_filter_selector: { a: { $no: 1 } } } },
      400,
      "invalid_operator",
    ],
    [{ index: { fields: Array.from({ length: 65 }, (_, n) => `f${n}`) } }, 400, "invalid_index"],
  ])("refuses %j", async (body, status, error) => {
    const { ask } = await openFilms();
    expect(await ask("POST /films/_index", { body })).toMatchObject({ status, json: { error } });
  });

  const METHODS = [
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "COPY",
    "OPTIONS",
    "TRACE",
    "CONNECT",
  ];

  // Paths from mango's test_bad_urls.
  test.each(["a", "a/b", "a/b/c/d", "a/b/c/d/e", "a/b/c/d/e/f"])(
    "answers 404 at _index/%s for every method",
    async (path) => {
      const { ask } = await openFilms();
      for (const method of METHODS) {
        const answer = await ask(`${method} /films/_index/${path}`, { body: {} });
        expect([method, answer.status]).toEqual([method, 404]);
        if (method === "HEAD") continue;
        expect(answer.json).toEqual({ error: "not_found", reason: "missing" });
      }
    },
  );

  test.each([
    ["_bulk_delete", "POST"],
    ["d/json/a", "DELETE"],
    ["_design/d/json/a", "DELETE"],
  ])("_index/%s allows only %s", async (path, allowed) => {
    const { ask } = await openFilms();
    for (const method of METHODS.filter((it) => it !== allowed)) {
      const answer = await ask(`${method} /films/_index/${path}`, { body: {} });
      expect([method, answer.status, answer.headers.Allow]).toEqual([method, 405, allowed]);
    }
  });

  test("refuses to add an index to a design document of another language", async () => {
    const { ask } = await openFilms();
    await ask("PUT /films/_design/d", { body: { language: "javascript" } });
    const body = { index: { fields: ["a"] }, ddoc: "d" };
    expect(await ask("POST /films/_index", { body })).toMatchObject({
      status: 400,
      json: { error: "invalid_ddoc_lang" },
    });
  });

  test("allows only an administrator of the database to change indexes", async () => {
    const films = await openFilms();
    const body = { admins: { names: ["alice"] }, members: { names: ["bob"] } };
    await films.ask("PUT /films/_security", { body });
    const open = (name: string) =>
      openFilms({
        parts: { ...films.parts, authenticate: async () => ({ name, roles: [], isAdmin: false }) },
      });
    const bob = await open("bob");
    const index = { body: { index: { fields: ["a"] }, ddoc: "d", name: "a" } };
    expect((await bob.ask("POST /films/_index", index)).status).toBe(403);
    const alice = await open("alice");
    expect((await alice.ask("POST /films/_index", index)).status).toBe(200);
    expect((await bob.ask("GET /films/_index")).json.total_rows).toBe(2);
    expect((await bob.ask("DELETE /films/_index/d/json/a")).status).toBe(403);
  });

  test("refuses to index a database whose documents are encrypted, and ignores indexes in its design documents", async () => {
    const seal: DatabaseHook["seal"] = {
      seal: (bytes: Uint8Array) => bytes,
      open: (bytes: Uint8Array) => bytes,
      isCurrent: () => true,
    } as never;
    const { ask, parts } = await openFilms({
      hooks: [{ appliesTo: () => true, seal }],
    });
    const body = { index: { fields: ["a"] } };
    expect((await ask("POST /films/_index", { body })).json.error).toBe("invalid_index");
    const views = { i: { map: { fields: { a: "asc" } }, reduce: "_count", options: {} } };
    const document = { language: "query", views };
    await ask("PUT /films/_design/d", { body: document });
    await ask("PUT /films/a", { body: { a: 1 } });
    const database = await parts.kv.read((tx) => parts.databases.open(tx, "films"));
    const rows = await parts.kv.read((tx) => tx.getRangePage(database.indexSubspace.range()));
    expect(rows.entries).toEqual([]);
  });
});

describe("an index", () => {
  test("returns documents in its sort order, and continues after the last one returned, even if that document was deleted", async () => {
    const api = await openIndexed({ fields: [["n"]] });
    const query = { selector: { n: { $gte: 8 } }, limit: 4, fields: ["_id"] };
    const first = await find(api, query);
    expect(first.ids).toEqual(["d18", "d28", "d38", "d19"]);
    expect(first.warning).toBeUndefined();
    // Delete the document named by the bookmark.
    const { json } = await api.ask("GET /films/d19");
    await api.ask(`DELETE /films/d19?rev=${json._rev}`);
    const second = await find(api, { ...query, bookmark: first.bookmark });
    expect(second.ids).toEqual(["d29", "d39"]);
    const last = await find(api, { ...query, bookmark: second.bookmark });
    expect(last.ids).toEqual([]);
    expect(last.bookmark).toBe(second.bookmark);
  });

  test("is read backwards if the query sorts in descending order", async () => {
    const api = await openIndexed({ fields: [["n"]] });
    const query = { selector: { n: { $lt: 2 } }, sort: [{ n: "desc" }], limit: 4 };
    const first = await find(api, query);
    expect(first.ids).toEqual(["d31", "d21", "d11", "d30"]);
    const second = await find(api, { ...query, bookmark: first.bookmark });
    expect(second.ids).toEqual(["d20", "d10"]);
  });

  test("makes _find report the number of examined documents", async () => {
    const api = await openIndexed({ fields: [["n"]] });
    const selector = { n: 3, "o.x": { $gt: 5 } };
    const { ids, execution_stats: statistics } = await find(api, {
      selector,
      execution_stats: true,
    });
    expect(ids).toEqual(["d23", "d33"]);
    expect(statistics).toMatchObject({
      total_keys_examined: 3,
      total_docs_examined: 3,
      results_returned: 2,
    });
  });

  test("makes _find warn if it read many documents for few results", async () => {
    const api = await openIndexed({ fields: [["n"]] });
    const { warning } = await find(api, { selector: { n: { $gte: 0 }, "o.x": 7 } });
    expect(warning).toMatch(/^The number of documents examined is high in proportion/);
  });

  test("is updated by writes, replicated edits and purges", async () => {
    const api = await openIndexed({ fields: [["n"]] });
    const seven = { selector: { n: 7 } };
    const { json } = await api.ask("GET /films/d17");
    await api.ask("PUT /films/d17", { body: { ...json, n: 70 } });
    expect((await find(api, seven)).ids).toEqual(["d27", "d37"]);
    const docs = [
      { _id: "d27", _rev: "9-f", n: 71 },
      { _id: "new", _rev: "1-a", n: 7 },
    ];
    await api.ask("POST /films/_bulk_docs", { body: { docs, new_edits: false } });
    expect((await find(api, seven)).ids).toEqual(["d37", "new"]);
    await api.ask("POST /films/_purge", { body: { new: ["1-a"] } });
    expect((await find(api, seven)).ids).toEqual(["d37"]);
  });

  test("is built for a replicated design document, and removed if a later revision of that document defines another index", async () => {
    const api = await openFilms();
    const map = { fields: { n: "asc" }, partial_filter_selector: {} };
    const view = { map, reduce: "_count", options: { def: { fields: ["n"] } } };
    const design = { _id: "_design/d", _rev: "1-a", language: "query", views: { n: view } };
    // With `new_edits: false`, the documents are written as by a replication.
    const docs = [{ _id: "a", _rev: "1-a", n: 1 }, design, { _id: "b", _rev: "1-a", n: 0 }];
    await api.ask("POST /films/_bulk_docs", { body: { docs, new_edits: false } });
    const query = { selector: { n: { $gte: 0 } }, sort: ["n"] };
    expect((await find(api, query)).ids).toEqual(["b", "a"]);
    const other = { ...view, map: { fields: { m: "asc" } } };
    const changed = { ...design, _rev: "2-a", views: { n: other } };
    await api.ask("POST /films/_bulk_docs", { body: { docs: [changed], new_edits: false } });
    const refused = await api.ask("POST /films/_find", { body: query });
    expect(refused.json.error).toBe("no_usable_index");
    expect((await api.ask("GET /films/_index")).json.total_rows).toBe(2);
  });

  test.each([
    { list: { $elemMatch: { $gt: 1 } } },
    { list: { $allMatch: { $or: [{ $eq: 2 }, { $eq: 3 }] } } },
    { $and: [{ list: { $elemMatch: { $gt: 1, $lt: 4 } } }, { $gt: null }] },
  ])(
    "normalizes and applies a partial filter that has operators outside a field: %j",
    async (filter) => {
      const api = await openFilms();
      const index = { fields: ["n"], partial_filter_selector: filter };
      const made = await api.ask("POST /films/_index", { body: { index, ddoc: "d", name: "n" } });
      expect(made.json).toMatchObject({ result: "created" });
      const docs = [[2, 3], [0], [3]].map((list, n) => ({ _id: `${n}`, n, list }));
      await api.ask("POST /films/_bulk_docs", { body: { docs } });
      const query = { selector: { n: { $gte: 0 } }, use_index: ["d", "n"] };
      expect((await find(api, query)).ids).toEqual(["0", "2"]);
    },
  );

  test("is used only if it is among the first thousand views of its design document", async () => {
    const api = await openFilms();
    const view = { map: { fields: { n: "asc" } }, options: { def: { fields: ["n"] } } };
    const others = Array.from({ length: 999 }, (_, at) => [`other-${at}`, { map: {} }]);
    const views = { ...Object.fromEntries(others), thousandth: view, next: view };
    const design = { language: "query", views };
    expect((await api.ask("PUT /films/_design/d", { body: design })).status).toBe(201);
    const { json } = await api.ask("GET /films/_index");
    expect(json.indexes.map(({ name }: { name: string }) => name)).toEqual([
      "_all_docs",
      "thousandth",
    ]);
  });

  test("that is partial serves only queries that name it", async () => {
    const api = await openIndexed();
    await makeIndex(api, ["n"], { even: true });
    const selector = { n: 4 };
    const plain = await find(api, { selector });
    expect(plain.ids).toEqual(["d14", "d24", "d34"]);
    expect(plain.warning).toMatch(/^No matching index found/);
    const odd = await find(api, { selector: { n: { $lte: 3 } }, use_index: "n", fields: ["_id"] });
    expect(odd.ids).toEqual(["d10", "d20", "d30", "d12", "d22", "d32"]);
    expect(odd.warning).toBeUndefined();
  });

  test("is rebuilt by the first node whose ICU version differs", async () => {
    const api = await openIndexed({ fields: [["n"]] });
    const { kv, databases, indexes } = api.parts;
    await kv.transact(async (tx) => {
      const database = await databases.open(tx, "films");
      const [index] = await indexes.list(tx, database);
      const key = database.indexSubspace.pack([1, index?.number ?? 0]);
      tx.set(key, Buffer.from(JSON.stringify({ ...index?.stored, version: "older" })));
      await database.changeIndexSet(tx, false);
    });
    await api.ask("PUT /films/d99", { body: { n: 9 } });
    expect((await find(api, { selector: { n: 9 } })).ids).toEqual(["d19", "d29", "d39", "d99"]);
    await kv.read(async (tx) => {
      const list = await indexes.list(tx, await databases.open(tx, "films"));
      expect(list.map(({ number }) => number)).toEqual([2]);
    });
  });
});

describe("a covering index", () => {
  const BIG = "12345678901234567890";

  test("answers a query from the index entries without reading documents", async () => {
    const { engine, counts } = countingEngine(new MemoryEngine({ runtime: createSystemRuntime() }));
    const api = await openIndexed({ fields: [["n", "o.x"]], wrapEngine: () => engine });
    const readBy = async (fields: readonly string[]) => {
      const before = counts.readCount;
      const query = { selector: { n: 3, "o.x": { $gt: 5 } }, fields, execution_stats: true };
      const { docs, execution_stats: statistics } = await find(api, query);
      return { docs, statistics, readCount: counts.readCount - before };
    };
    await readBy(["_id"]);
    const reported = await readBy(["o.x", "_id"]);
    expect(reported.docs).toEqual([
      { o: { x: 13 }, _id: "d23" },
      { o: { x: 23 }, _id: "d33" },
    ]);
    expect(reported.statistics).toMatchObject({
      total_keys_examined: 2,
      total_docs_examined: 0,
      results_returned: 2,
    });
    const read = await readBy(["o.x", "_id", "even"]);
    expect(read.statistics).toMatchObject({ total_keys_examined: 2, total_docs_examined: 2 });
    // The record of a document contains its revisions and its short body.
    expect(read.readCount - reported.readCount).toBe(2);
  });

  test("reads documents if their values are normalized or truncated in the index entry", async () => {
    const api = await openFilms();
    await makeIndex(api, ["v"]);
    const long = `"${"x".repeat(3_000)}"`;
    const plain = [
      "null",
      "true",
      "-1.5",
      "5e-324",
      '"é\\u0000ไ"',
      '[1,{"b":[]},"a"]',
      '{"b":1,"a":null}',
    ];
    const others = [BIG, "1.0", "-0", "1e2", long, "[1, 2]"];
    const values = [...plain, ...others];
    for (const [n, value] of values.entries()) {
      await api.ask(`PUT /films/${10 + n}`, { body: `{"v":${value}}` });
    }
    const body = { selector: { v: { $exists: true } }, fields: ["v"], execution_stats: true };
    const { text, json } = await api.ask("POST /films/_find", { body });
    for (const value of values) {
      const shown = plain.includes(value) ? JSON.stringify(JSON.parse(value)) : value;
      expect(text).toContain(`{"v":${shown}}`);
    }
    expect(json.execution_stats).toMatchObject({
      total_keys_examined: values.length,
      total_docs_examined: others.length,
    });
  });

  test("updates an index entry if a value's form changes but its sort position does not", async () => {
    const api = await openIndexed({ fields: [["n"]] });
    const { json } = await api.ask("GET /films/d17");
    const query = { selector: { n: 7 }, fields: ["n"] };
    const texts = async () => (await api.ask("POST /films/_find", { body: query })).text;
    const body = `{"_rev":"${json._rev}","n":7.0}`;
    const { rev } = (await api.ask("PUT /films/d17", { body })).json;
    expect(await texts()).toContain('{"n":7.0}');
    await api.ask(`PUT /films/d17?rev=${rev}`, { body: { n: 7 } });
    expect(await texts()).not.toContain('{"n":7.0}');
    expect((await find(api, { ...query, fields: ["_id"] })).ids).toEqual(["d17", "d27", "d37"]);
  });

  test("reveals nothing about documents that the user may not read", async () => {
    const hidden: DatabaseHook = {
      appliesTo: () => true,
      afterRead: (document) => (document.id === "d17" ? undefined : document),
    };
    const films = await openIndexed({ fields: [["n"]], hooks: [hidden] });
    await films.ask("PUT /films/_security", { body: {} });
    const bob = await openFilms({
      parts: {
        ...films.parts,
        authenticate: async () => ({ name: "bob", roles: [], isAdmin: false }),
      },
    });
    const query = { selector: { n: 7 }, fields: ["_id"] };
    expect((await find(films, query)).ids).toEqual(["d17", "d27", "d37"]);
    expect((await find(bob, query)).ids).toEqual(["d27", "d37"]);
  });
});

describe("the planner", () => {
  async function explained(api: Asked, body: object) {
    const { json } = await api.ask("POST /films/_explain", { body });
    const candidates = json.index_candidates.map(
      ({ index, analysis }: { index: { name: string }; analysis: Record<string, never> }) => [
        index.name,
        (analysis.reasons as unknown as { name: string }[])[0]?.name,
        analysis.usable,
        analysis.ranking,
      ],
    );
    return {
      ...json,
      candidates: Object.fromEntries(candidates.map(([n, ...v]: never[]) => [n, v])),
    };
  }

  test("chooses the index that covers the most fields of the selector, and explains why it rejected the others", async () => {
    const api = await openIndexed({ fields: [["n"], ["n", "even"], ["even"], ["o.x"]] });
    const json = await explained(api, { selector: { n: 1, even: false } });
    expect(json.index).toMatchObject({ name: "n-even", type: "json" });
    expect(json.mrargs).toMatchObject({
      start_key: [1, false],
      end_key: [1, false, "<MAX>"],
      direction: "fwd",
    });
    expect(json.candidates).toEqual({
      _all_docs: ["unfavored_type", true, 3],
      even: ["less_overlap", true, 1],
      n: ["less_overlap", true, 2],
      "o.x": ["field_mismatch", false, 4],
    });
  });

  test("prefers the index with the fewest fields if several cover the same fields of the selector", async () => {
    const api = await openIndexed({ fields: [["n", "o.x"], ["n"]] });
    const selector = { n: 1, "o.x": { $regex: "" } };
    expect((await explained(api, { selector })).candidates).toMatchObject({
      "n-o.x": ["too_many_fields", true, 1],
    });
  });

  test.each([
    ["n", "n"],
    ["_design/n-even/n-even", "n-even"],
    [["n-even", "n-even"], "n-even"],
  ])("uses the index that the query names: %j", async (useIndex, name) => {
    const api = await openIndexed({ fields: [["n"], ["n", "even"]] });
    const body = { selector: { n: 1, even: true }, use_index: useIndex };
    expect((await explained(api, body)).index.name).toBe(name);
  });

  test("warns and uses another index if the named one is unusable, unless the query disables this fallback", async () => {
    const api = await openIndexed({ fields: [["n"], ["even"]] });
    const query = { selector: { n: 1 }, use_index: ["even", "even"] };
    const { warning, ids } = await find(api, query);
    expect(ids).toEqual(["d11", "d21", "d31"]);
    const reason =
      "_design/even, even was not used because it is not a valid index for this query.";
    expect(warning).toBe(reason);
    const body = { ...query, allow_fallback: false };
    expect((await api.ask("POST /films/_find", { body })).json).toEqual({
      error: "invalid_index",
      reason:
        "_design/even, even specified by `use_index` could not be found or it is not suitable.",
    });
  });

  test("sorts by an index's later fields if the selector allows only one value for the earlier fields", async () => {
    const api = await openIndexed({ fields: [["even", "n"]] });
    const sort = [{ n: "desc" }];
    const found = await find(api, { selector: { even: true }, sort, limit: 3 });
    expect(found.ids).toEqual(["d38", "d28", "d18"]);
    const body = { selector: { even: { $gte: true } }, sort };
    expect((await api.ask("POST /films/_find", { body })).json.error).toBe("no_usable_index");
    const unusable = await explained(api, { selector: { even: { $gte: true } }, sort });
    expect(unusable.index).toBeNull();
    expect(unusable.candidates["even-n"]).toEqual(["sort_order_mismatch", false, 1]);
  });

  test("reads no index entries if no value can match", async () => {
    const api = await openIndexed({ fields: [["n"]] });
    const body = { selector: { n: { $gt: 5, $lt: 3 } }, execution_stats: true };
    const { ids, execution_stats: statistics } = await find(api, body);
    expect(ids).toEqual([]);
    expect(statistics.total_keys_examined).toBe(0);
  });

  test("refuses a bookmark that belongs to another index", async () => {
    const api = await openIndexed({ fields: [["n"]] });
    const { bookmark } = await find(api, { selector: { o: { $exists: true } }, limit: 1 });
    const body = { selector: { n: 1 }, bookmark };
    expect((await api.ask("POST /films/_find", { body })).json.error).toBe("invalid_bookmark");
  });
});

test("the first query builds the indexes of design documents that were stored before Tandem supported indexes", async () => {
  const older = await openFilms();
  const { kv, databases, ...parts } = older.parts;
  const withoutHooks = new DatabaseRegistry({
    runtime: older.runtime,
    root: Subspace.fromTuple([1]),
  });
  const view = { map: { fields: { n: "asc" } }, reduce: "_count", options: {} };
  const bodies = {
    "_design/d": { language: "query", views: { n: view } },
    a: { n: 2 },
    b: { n: 1 },
  };
  await kv.transact(async (tx) => {
    const database = await withoutHooks.open(tx, "films");
    const edits = Object.entries(bodies).map(([id, body]) => ({
      mode: "interactive" as const,
      id,
      parent: undefined,
      deleted: false,
      body: Utf8Text.of(JSON.stringify(body)),
      attachments: [],
    }));
    const context = { userName: null, roles: [], isAdmin: true };
    await database.writeMany(tx, edits, context);
  });
  const query = { selector: { n: { $gt: 0 } }, sort: ["n"] };
  expect((await find(older, query)).ids).toEqual(["b", "a"]);
  const opened = await kv.read((tx) => databases.open(tx, "films"));
  expect(await kv.read((tx) => parts.indexes.list(tx, opened))).toHaveLength(1);
});

test("execution_stats counts quorum documents separately, as in CouchDB", async () => {
  const { ask } = await openFilms();
  await ask("PUT /films/a", { body: { n: 1 } });
  const body = { selector: { n: 1 }, execution_stats: true };
  const countsOf = async (more: object) => {
    const { json } = await ask("POST /films/_find", { body: { ...body, ...more } });
    const { total_docs_examined, total_quorum_docs_examined } = json.execution_stats;
    return [total_docs_examined, total_quorum_docs_examined];
  };
  expect(await countsOf({})).toEqual([1, 0]);
  expect(await countsOf({ r: 3 })).toEqual([0, 1]);
});

test("an index of type null is refused, as in CouchDB", async () => {
  const { ask } = await openFilms();
  const { status, json } = await ask("POST /films/_index", {
    body: { index: { fields: ["a"] }, type: null },
  });
  expect([status, json.error]).toEqual([400, "invalid_string"]);
});

test("a selector with an empty name below a field is refused", async () => {
  const { ask } = await openFilms();
  const body = { selector: { _id: { "": null } } };
  expect((await ask("POST /films/_find", { body })).status).toBe(400);
});

test("_info describes a design document that defines indexes, and is not implemented for views", async () => {
  const { ask } = await openFilms();
  const index = async (field: string) =>
    ask("POST /films/_index", { body: { index: { fields: [field] }, ddoc: "i", name: field } });
  await index("a");
  const before = await ask("GET /films/_design/i/_info");
  expect([before.status, before.json]).toEqual([
    200,
    {
      name: "i",
      view_index: {
        language: "query",
        signature: expect.stringMatching(/^[0-9a-f]{32}$/),
        updater_running: expect.any(Boolean),
      },
    },
  ]);
  await index("b");
  const after = await ask("GET /films/_design/i/_info");
  expect(after.json.view_index.signature).not.toBe(before.json.view_index.signature);
  await ask("PUT /films/_design/views", { body: { views: { v: { map: "function () {}" } } } });
  expect((await ask("GET /films/_design/views/_info")).status).toBe(501);
  expect((await ask("GET /films/_design/none/_info")).status).toBe(404);
});
