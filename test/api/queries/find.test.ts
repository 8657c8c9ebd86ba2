/** Mango queries. The selectors and their results were recorded from CouchDB 3.5.0. */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { type Asked, openFilms } from "../api.fixture.ts";
import { FILMS, type Row, refusal, testRows } from "../rows.ts";

interface Recorded {
  readonly documents: readonly object[];
  readonly cases: readonly {
    readonly name: string;
    readonly selector: object;
    /** Ids of the documents found, or CouchDB's error for the selector. */
    readonly find: readonly string[] | { readonly error: string };
    readonly changes: readonly string[] | { readonly error: string };
  }[];
}

const FIXTURE = new URL("../../fixtures/selector-cases.json", import.meta.url);
const { documents, cases }: Recorded = JSON.parse(readFileSync(FIXTURE, "utf8"));

describe("selectors", () => {
  test.each(cases.map((row) => [row.name, row] as const))("%s", async (_, row) => {
    const { ask } = await openFilms();
    await ask("POST /films/_bulk_docs", { body: { docs: documents } });
    const { selector } = row;
    const found = await ask("POST /films/_find", { body: { selector } });
    const changed = await ask("POST /films/_changes?filter=_selector", { body: { selector } });
    const ids = (list: readonly { readonly [name: string]: unknown }[], name: string) =>
      list.map((item) => item[name]);
    if (Array.isArray(row.find)) expect(ids(found.json.docs, "_id")).toEqual(row.find);
    // CouchDB fails with 500 if an operand causes a division by zero.
    else expect(found.status).toBe(400);
    if (Array.isArray(row.changes)) expect(ids(changed.json.results, "id")).toEqual(row.changes);
    else expect(changed.status).toBe(400);
  });
});

const WARNING = "No matching index found, create an index to optimize query time.";

/** Opens a database with the documents `d1` to `d3` and a design document. */
async function openThree<Api extends Asked>(open: () => Promise<Api>): Promise<Api> {
  const api = await open();
  const docs = [1, 2, 3].map((n) => ({
    _id: `d${n}`,
    _rev: "1-a",
    n,
    o: { x: n, y: { z: "q" } },
    a: [{ b: 1 }, { b: 2 }],
    "dot.ted": n,
    $n: n,
  }));
  const body = { docs: [...docs, { _id: "_design/x", _rev: "1-a" }], new_edits: false };
  await api.ask("POST /films/_bulk_docs", { body });
  return api;
}

function find(name: string, body: object, answer: Omit<Row, "name" | "ask">): Row {
  return { name, ask: "POST /films/_find", body, ...answer };
}

function docs(...list: object[]) {
  return { status: 200, has: { docs: list, warning: WARNING } };
}

function ids(...list: string[]) {
  return docs(...list.map((_id) => ({ _id })));
}

const fields = ["_id"];
const selector = {};
const anyId = { _id: { $gt: null } };
const unusable = refusal(
  400,
  "no_usable_index",
  "No index exists for this sort, try indexing by the sort fields.",
);
const erlang = { differs: "The value is shown as JSON, not as an Erlang term" };

describe("_find", () => {
  testRows(openThree, [
    find(
      "reads all documents, but no design documents",
      { selector, fields },
      ids("d1", "d2", "d3"),
    ),
    find(
      "knows names that begin with a dollar",
      { selector: { "\\$n": 2 }, fields: ["\\$n"] },
      docs({ $n: 2 }),
    ),
    find(
      "passes over backslashes in names",
      { selector: { "\\n": 3, "o.\\x": 3 }, fields },
      ids("d3"),
    ),
    find("stops at its limit", { selector, fields, limit: 2 }, ids("d1", "d2")),
    find("skips", { selector, fields, skip: 2 }, ids("d3")),
    find("skips what matches", { selector: { n: { $gt: 1 } }, fields, skip: 1 }, ids("d3")),
    find("may skip everything", { selector, fields, skip: 5 }, ids()),
    find(
      "answers nothing for a limit of zero",
      { selector, limit: 0 },
      {
        status: 200,
        json: { docs: [], bookmark: "nil", warning: WARNING },
      },
    ),
    find(
      "has no bookmark where nothing matches",
      { selector: { n: 9 } },
      {
        status: 200,
        json: { docs: [], bookmark: "nil", warning: WARNING },
      },
    ),
    find(
      "answers whole documents",
      { selector: { n: 1 } },
      docs({
        _id: "d1",
        _rev: "1-a",
        n: 1,
        o: { x: 1, y: { z: "q" } },
        a: [{ b: 1 }, { b: 2 }],
        "dot.ted": 1,
        $n: 1,
      }),
    ),
    find(
      "answers whole documents for no fields",
      { selector: { n: 1 }, fields: [] },
      {
        status: 200,
        has: { docs: [{ _id: "d1", n: 1 }] },
      },
    ),
    find(
      "keeps objects around inner fields",
      { selector: { n: 1 }, fields: ["o.y.z", "o.x"] },
      docs({ o: { y: { z: "q" }, x: 1 } }),
    ),
    find(
      "takes an element of an array",
      { selector: { n: 1 }, fields: ["a.1.b"] },
      docs({ a: { 1: { b: 2 } } }),
    ),
    find(
      "lets a whole field replace its parts",
      { selector: { n: 1 }, fields: ["o.x", "o"] },
      docs({ o: { x: 1, y: { z: "q" } } }),
    ),
    find(
      "leaves out fields that are not there",
      { selector: { n: 1 }, fields: ["nope", "n.x", "_rev"] },
      docs({ _rev: "1-a" }),
    ),
    find(
      "knows dots in names",
      { selector: { "dot\\.ted": 2 }, fields: ["dot\\.ted"] },
      docs({ "dot.ted": 2 }),
    ),
    find(
      "reads between ids",
      { selector: { _id: { $gte: "d1", $lt: "d3" } }, fields },
      ids("d1", "d2"),
    ),
    find("reads one id", { selector: { _id: "d2" }, fields }, ids("d2")),
    find(
      "reads ids that begin alike",
      { selector: { _id: { $beginsWith: "d" } }, fields },
      ids("d1", "d2", "d3"),
    ),
    find("sorts by id", { selector: anyId, sort: ["_id"], fields }, ids("d1", "d2", "d3")),
    find(
      "sorts by id backwards",
      { selector: anyId, sort: [{ _id: "desc" }], fields, limit: 2 },
      ids("d3", "d2"),
    ),
    find(
      "sorts between ids backwards",
      { selector: { _id: { $lt: "d3" } }, sort: [{ _id: "desc" }], fields },
      ids("d2", "d1"),
    ),
    find("does not sort by id without a condition on ids", { selector, sort: ["_id"] }, unusable),
    find(
      "does not sort by id with a condition that is not a range of ids",
      { selector: { _id: { $regex: "d" } }, sort: ["_id"] },
      unusable,
    ),
    find("does not sort by another field", { selector: { n: { $gt: 0 } }, sort: ["n"] }, unusable),
    find("does not sort by two fields", { selector: anyId, sort: ["_id", "n"] }, unusable),
    find(
      "refuses mixed directions",
      { selector, sort: [{ n: "asc" }, { o: "desc" }] },
      refusal(
        400,
        "unsupported_mixed_sort",
        "Sorts currently only support a single direction for all fields.",
      ),
    ),
    find(
      "refuses a sort that is no list",
      { selector, sort: 1 },
      refusal(400, "invalid_sort_json", "Sort must be an array of sort specs, not: 1"),
    ),
    find(
      "refuses a sort by a number",
      { selector, sort: [1] },
      refusal(400, "invalid_sort_field", "Invalid sort field: 1"),
    ),
    find(
      "refuses a direction that is none",
      { selector, sort: [{ n: "x" }] },
      { ...refusal(400, "invalid_sort_field", 'Invalid sort field: {"n":"x"}'), ...erlang },
    ),
    find(
      "tells what it took",
      { selector, limit: 2, execution_stats: true },
      {
        status: 200,
        has: {
          execution_stats: {
            total_docs_examined: 3,
            total_quorum_docs_examined: 0,
            results_returned: 2,
            execution_time_ms: expect.any(Number),
          },
        },
      },
    ),
    find(
      "says that there is no index of a name",
      { selector, use_index: "x", limit: 0 },
      {
        status: 200,
        has: {
          warning: `_design/x was not used because it does not contain a valid index for this query.\n${WARNING}`,
        },
      },
    ),
    find(
      "says that there is no index of two names",
      { selector, use_index: ["x", "y"], limit: 0 },
      {
        status: 200,
        has: {
          warning: `_design/x, y was not used because it is not a valid index for this query.\n${WARNING}`,
        },
      },
    ),
    find(
      "refuses an index without a name",
      { selector, use_index: 1 },
      refusal(400, "invalid_index_name", "Invalid index name: 1"),
    ),
    find(
      "cannot do without an index where it must",
      { selector, allow_fallback: false },
      refusal(400, "invalid_index", "You must specify an index with the `use_index` parameter."),
    ),
    find(
      "cannot use an index that is not there",
      { selector, allow_fallback: false, use_index: "x" },
      refusal(
        400,
        "invalid_index",
        "_design/x specified by `use_index` could not be found or it is not suitable.",
      ),
    ),
    find(
      "needs a selector",
      {},
      refusal(400, "missing_required_key", "Missing required key: selector"),
    ),
    find(
      "refuses a selector that is no object",
      { selector: 1 },
      refusal(400, "invalid_selector_json", "Selector must be a JSON object, not: 1"),
    ),
    find(
      "refuses an operator that is none",
      { selector: { n: { $foo: 1 } } },
      refusal(400, "invalid_operator", "Invalid operator: $foo"),
    ),
    find(
      "refuses an operand that is none",
      { selector: { n: { $in: 3 } } },
      refusal(400, "bad_arg", "Bad argument for operator $in: 3"),
    ),
    find(
      "refuses a prefix that is not a string",
      { selector: { _id: { $beginsWith: true } } },
      refusal(400, "invalid_operator", "Invalid operator: $beginsWith"),
    ),
    find(
      "refuses a body that is a list",
      [],
      refusal(400, "bad_request", "Request body must be a JSON object"),
    ),
    find(
      "refuses a limit below zero",
      { selector, limit: -1 },
      refusal(400, "invalid_non_neg_integer", "-1 is not an integer greater than or equal to zero"),
    ),
    find(
      "refuses a limit that is a text",
      { selector, limit: "a" },
      {
        ...refusal(
          400,
          "invalid_non_neg_integer",
          '"a" is not an integer greater than or equal to zero',
        ),
        ...erlang,
      },
    ),
    find(
      "refuses a skip below zero",
      { selector, skip: -1 },
      refusal(400, "invalid_non_neg_integer", "-1 is not an integer greater than or equal to zero"),
    ),
    find(
      "refuses a quorum of zero",
      { selector, r: 0 },
      refusal(400, "invalid_pos_integer", "0 is not an integer greater than zero"),
    ),
    find(
      "refuses fields that are no list",
      { selector, fields: 1 },
      refusal(400, "invalid_fields", "Fields must be an array of strings, not: 1"),
    ),
    find(
      "refuses a field that is a number",
      { selector, fields: [1] },
      refusal(400, "invalid_field", "Invalid JSON for field spec: 1"),
    ),
    find(
      "refuses a flag that is none",
      { selector, conflicts: 1 },
      refusal(400, "invalid_boolean", "Invalid boolean value: 1"),
    ),
    find(
      "refuses a bookmark of another user",
      { selector, bookmark: "x" },
      refusal(400, "invalid_bookmark", 'Invalid bookmark value: "x"'),
    ),
    find(
      "refuses a bookmark that is a list",
      { selector, bookmark: ["index:1:00"] },
      {
        ...refusal(400, "invalid_bookmark", 'Invalid bookmark value: ["index:1:00"]'),
        differs: "CouchDB fails with 500 unknown_error",
      },
    ),
    find(
      "takes the bookmark of an empty answer for the begin",
      { selector, fields, bookmark: "nil" },
      { ...ids("d1", "d2", "d3"), differs: "CouchDB refuses the bookmark that it gave" },
    ),
    find(
      "knows no partitions",
      { selector, partition: "a" },
      refusal(400, "query_parse_error", "`partition` parameter is not supported on this db"),
    ),
    find(
      "refuses a member that it does not know",
      { selector, nope: 1 },
      refusal(400, "invalid_key", "Invalid key nope for this request."),
    ),
    {
      name: "refuses another content type",
      ask: "POST /films/_find",
      body: "{}",
      headers: { "Content-Type": "text/plain" },
      ...refusal(415, "bad_content_type", "Content-Type must be application/json"),
    },
    {
      name: "refuses a truncated body",
      ask: "POST /films/_find",
      body: "{",
      ...refusal(400, "bad_request", "invalid UTF-8 JSON"),
    },
    {
      name: "requires POST",
      ask: "GET /films/_find",
      ...refusal(405, "method_not_allowed", "Only POST allowed"),
      answers: { Allow: "POST" },
    },
    {
      name: "needs a database",
      ask: "POST /nope/_find",
      body: { selector },
      ...refusal(404, "not_found", "Database does not exist."),
    },
  ]);

  test("continues after its bookmark in either sort direction", async () => {
    const { ask } = await openThree(openFilms);
    for (const [direction, order] of [
      ["asc", ["d1", "d2", "d3", undefined]],
      ["desc", ["d3", "d2", "d1", undefined]],
    ] as const) {
      let bookmark = "";
      const sort = [{ _id: direction }];
      for (const id of order) {
        const body = { selector: anyId, sort, fields, limit: 1, bookmark };
        const { json } = await ask("POST /films/_find", { body });
        expect(json.docs).toEqual(id === undefined ? [] : [{ _id: id }]);
        bookmark = json.bookmark;
      }
    }
  });

  test("returns every digit of a number, in whole documents and in requested fields", async () => {
    const { ask } = await openFilms();
    await ask("PUT /films/a", { body: '{"n":12345678901234567890,"o":{"x":1.0}}' });
    const all = await ask("POST /films/_find", { body: { selector } });
    expect(all.text).toContain('"n":12345678901234567890,"o":{"x":1.0}');
    const some = await ask("POST /films/_find", { body: { selector, fields: ["n", "o.x"] } });
    expect(some.text).toContain('{"n":12345678901234567890,"o":{"x":1.0}}');
  });

  test("scans more documents than it keeps in memory", async () => {
    const { ask } = await openFilms();
    const many = Array.from({ length: 1_000 }, (_, n) => ({ _id: String(n).padStart(4, "0"), n }));
    await ask("POST /films/_bulk_docs", { body: { docs: many } });
    const body = { selector: { n: { $mod: [250, 249] } }, fields: ["n"], execution_stats: true };
    const { json } = await ask("POST /films/_find", { body });
    expect(json.docs).toEqual([{ n: 249 }, { n: 499 }, { n: 749 }, { n: 999 }]);
    expect(json.execution_stats.total_docs_examined).toBe(1_000);
  });

  test("finds documents by their _conflicts member", async () => {
    const { ask } = await openFilms();
    for (const _rev of ["1-a", "1-b"]) {
      await ask("POST /films/_bulk_docs", {
        body: { new_edits: false, docs: [{ _id: "x", _rev }] },
      });
    }
    const body = { selector: { _conflicts: { $exists: true } }, conflicts: true };
    const { json } = await ask("POST /films/_find", { body });
    expect(json.docs).toEqual([{ _id: "x", _rev: "1-b", _conflicts: ["1-a"] }]);
  });
});

function explain(name: string, body: object, answer: Omit<Row, "name" | "ask">): Row {
  return { name, ask: "POST /films/_explain", body, ...answer };
}

const ALL_DOCUMENTS = {
  ddoc: null,
  name: "_all_docs",
  type: "special",
  def: { fields: [{ _id: "asc" }] },
};

describe("_explain and _index", () => {
  testRows(FILMS, [
    explain(
      "tells all of a query",
      { selector: { n: 1 }, fields: ["n"] },
      {
        status: 200,
        json: {
          dbname: "films",
          index: ALL_DOCUMENTS,
          partitioned: false,
          selector: { n: { $eq: 1 } },
          opts: {
            use_index: [],
            bookmark: "nil",
            limit: 25,
            skip: 0,
            sort: {},
            fields: ["n"],
            partition: "",
            r: 1,
            conflicts: false,
            stale: false,
            update: true,
            stable: false,
            execution_stats: false,
            allow_fallback: true,
          },
          limit: 25,
          skip: 0,
          fields: ["n"],
          index_candidates: [],
          selector_hints: [{ type: "json", indexable_fields: ["n"], unindexable_fields: [] }],
          mrargs: {
            include_docs: true,
            view_type: "map",
            reduce: false,
            partition: null,
            start_key: null,
            end_key: "<MAX>",
            direction: "fwd",
            stable: false,
            update: true,
            conflicts: "undefined",
          },
          covering: false,
        },
      },
    ),
    explain(
      "tells where a query begins and ends",
      { selector: { _id: { $gt: "a", $lt: "b" } } },
      { status: 200, has: { mrargs: { start_key: "a", end_key: "b", direction: "fwd" } } },
    ),
    explain(
      "tells that a query goes backwards",
      { selector: { _id: { $gt: "a" } }, sort: [{ _id: "desc" }] },
      {
        status: 200,
        has: {
          opts: { sort: { _id: "desc" } },
          mrargs: { start_key: "<MAX>", end_key: "a", direction: "rev" },
        },
      },
    ),
    explain(
      "tells which fields an index could serve",
      { selector: { a: { $in: [1] }, "b.c": { $gt: 1 } } },
      {
        status: 200,
        has: { selector_hints: [{ indexable_fields: ["b.c"], unindexable_fields: ["a"] }] },
      },
    ),
    explain(
      "refuses what _find refuses",
      { selector: 1 },
      refusal(400, "invalid_selector_json", "Selector must be a JSON object, not: 1"),
    ),
    {
      name: "the primary index exists",
      ask: "GET /films/_index",
      status: 200,
      json: { total_rows: 1, indexes: [ALL_DOCUMENTS] },
    },
    {
      name: "indexes are listed in pages",
      ask: "GET /films/_index?limit=1&skip=1",
      status: 200,
      json: { total_rows: 1, indexes: [] },
    },
    {
      name: "an index without a name is named by the hash of its definition",
      ask: "POST /films/_index",
      body: { index: { fields: ["n"] } },
      status: 200,
      json: {
        result: "created",
        id: "_design/3d4fdc43057b07474cd610d0ad5761ead92400bf",
        name: "3d4fdc43057b07474cd610d0ad5761ead92400bf",
      },
    },
    {
      name: "a missing index is not removed",
      ask: "DELETE /films/_index/_design/x/json/y",
      ...refusal(404, "not_found", "missing"),
    },
  ]);
});

test("a selector with malformed conditions or field names is refused", async () => {
  const { ask } = await openFilms();
  const answerTo = async (selector: object) => {
    const { status, json } = await ask("POST /films/_find", { body: { selector } });
    return [status, json.error];
  };
  for (const operator of [
    "$and",
    "$or",
    "$nor",
    "$not",
    "$elemMatch",
    "$allMatch",
    "$keyMapMatch",
  ]) {
    for (const selector of [{ [operator]: 5 }, { n: { [operator]: 5 } }]) {
      expect([selector, await answerTo(selector)]).toEqual([selector, [400, "bad_arg"]]);
    }
  }
  for (const selector of [{ ".a": 1 }, { "a.": 1 }, { a: { "": 1 } }, { $or: [{ "a..b": 1 }] }]) {
    expect([selector, await answerTo(selector)]).toEqual([selector, [400, "invalid_field_name"]]);
  }
  expect(await answerTo({ "": 1 })).toEqual([400, "invalid_selector"]);
  expect(await answerTo({ "a\\.": 1 })).toEqual([200, undefined]);
  expect(await answerTo({ a: { $eq: { "": { $not: 1 } } } })).toEqual([200, undefined]);
});
