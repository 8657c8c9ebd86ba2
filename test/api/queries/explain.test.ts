/** Query plans, as `_explain` reports them in full and `_find` in a summary. */
import { describe, expect } from "vitest";
import { type Row, refusal, type Scene, testRows } from "../rows.ts";

/**
 * Opens a database with six documents and with indexes on `n`, on `n` and `even`, on `o.x`, and on
 * `list`, and with a partial index on `n` for even numbers.
 */
const INDEXED: Scene = async (open) => {
  const api = await open();
  const docs = [1, 2, 3, 4, 5, 6].map((n) => ({
    _id: `d${n}`,
    n,
    even: n % 2 === 0,
    o: { x: `x${n}`, y: n },
    list: [{ b: n }, { b: 0 }],
  }));
  await api.ask("POST /films/_bulk_docs", { body: { docs } });
  const indexes = [
    { name: "n", index: { fields: ["n"] } },
    { name: "n-even", index: { fields: ["n", "even"] } },
    { name: "o", index: { fields: ["o.x"] } },
    { name: "list", index: { fields: ["list"] } },
    { name: "some", index: { fields: ["n"], partial_filter_selector: { even: true } } },
  ];
  for (const each of indexes) {
    await api.ask("POST /films/_index", { body: { ...each, ddoc: each.name } });
  }
  return api;
};

const ALL_DOCUMENTS = {
  ddoc: null,
  name: "_all_docs",
  type: "special",
  def: { fields: [{ _id: "asc" }] },
};

function index(name: string, fields: readonly string[], filter?: object) {
  return {
    ddoc: `_design/${name}`,
    name,
    type: "json",
    partitioned: false,
    def: {
      fields: fields.map((field) => ({ [field]: "asc" })),
      ...(filter === undefined ? {} : { partial_filter_selector: filter }),
    },
  };
}

const INDEXES = {
  _all_docs: ALL_DOCUMENTS,
  n: index("n", ["n"]),
  "n-even": index("n-even", ["n", "even"]),
  o: index("o", ["o.x"]),
  list: index("list", ["list"]),
  some: index("some", ["n"], { even: { $eq: true } }),
};

type Name = keyof typeof INDEXES;

function candidates(
  ...list: readonly [
    name: Name,
    reason: string,
    usable: boolean,
    ranking: number,
    covering: boolean | null,
  ][]
) {
  return list.map(([name, reason, usable, ranking, covering]) => ({
    index: INDEXES[name],
    analysis: { usable, reasons: [{ name: reason }], ranking, covering },
  }));
}

function explain(name: string, body: object, has: object, row: Partial<Row> = {}): Row {
  return { name, ask: "POST /films/_explain", body, status: 200, has, ...row };
}

/** Returns the plan that reads this key range of this index. */
function read(name: Name, start_key: unknown, end_key: unknown, mrargs: object = {}) {
  return { index: INDEXES[name], mrargs: { start_key, end_key, direction: "fwd", ...mrargs } };
}

const MAX = "<MAX>";
const covering = { covering: true, mrargs: { include_docs: false } };
const reading = { covering: false, mrargs: { include_docs: true } };
const one = { n: 1 };

describe("_explain", () => {
  testRows(INDEXED, [
    explain(
      "takes the index that the selector says most about, and tells why not the others",
      { selector: { n: 1, even: false } },
      {
        ...read("n-even", [1, false], [1, false, MAX]),
        index_candidates: candidates(
          ["some", "is_partial", false, 4, false],
          ["o", "field_mismatch", false, 3, false],
          ["n", "less_overlap", true, 1, false],
          ["list", "field_mismatch", false, 3, false],
          ["_all_docs", "unfavored_type", true, 2, null],
        ),
      },
    ),
    explain(
      "takes the index with the fewest fields",
      { selector: { n: 1, even: { $regex: "" } } },
      { ...read("n", [1], [1, MAX]) },
    ),
    explain(
      "reads between bounds",
      { selector: { n: { $gt: 1, $lt: 4 } } },
      read("n", [1], [4, MAX]),
    ),
    explain("reads from a bound on", { selector: { n: { $gte: 2 } } }, read("n", [2], [MAX])),
    explain("reads up to a bound", { selector: { n: { $lte: 2 } } }, read("n", [], [2, MAX])),
    explain("reads all entries", { selector: { n: { $exists: true } } }, read("n", [], [MAX])),
    explain(
      "reads what begins alike",
      { selector: { "o.x": { $beginsWith: "x" } } },
      read("o", ["x"], ["x\uffff", MAX]),
    ),
    explain(
      "reads ids that begin alike",
      { selector: { _id: { $beginsWith: "a" } } },
      { index: ALL_DOCUMENTS, mrargs: { start_key: "a", end_key: "a\uffff" } },
    ),
    explain(
      "knows a field inside of another one",
      { selector: { o: { x: "x1" } } },
      { ...read("o", ["x1"], ["x1", MAX]), selector: { "o.x": { $eq: "x1" } } },
    ),
    explain(
      "stops at the first open bound",
      { selector: { n: { $gt: 1 }, even: true } },
      read("n-even", [1, true], [MAX]),
    ),
    explain(
      "reads backwards",
      { selector: { n: { $gt: 1 } }, sort: [{ n: "desc" }] },
      read("n", [MAX], [1], { direction: "rev" }),
    ),
    explain(
      "reads nothing where no value passes",
      { selector: { n: { $gt: 5, $lt: 3 } } },
      read("n", null, null),
    ),
    explain("reads nothing for an empty list", { selector: { $or: [] } }, read("list", null, null)),
    explain(
      "sorts behind a field that has one value",
      { selector: { n: 1, even: { $gt: null } }, sort: ["even"] },
      { index: INDEXES["n-even"] },
    ),
    explain(
      "has no index for a sort",
      { selector: one, sort: ["none"] },
      {
        index: null,
        index_candidates: candidates(
          ["some", "is_partial", false, 2, false],
          ["o", "field_mismatch", false, 1, false],
          ["n-even", "field_mismatch", false, 1, false],
          ["n", "sort_order_mismatch", false, 1, false],
          ["list", "field_mismatch", false, 1, false],
          ["_all_docs", "field_mismatch", false, 1, null],
        ),
      },
    ),
    explain(
      "takes a partial index that is named",
      { selector: { n: { $gt: 1 } }, use_index: "some" },
      {
        ...read("some", [1], [MAX]),
        opts: { use_index: ["some"] },
        index_candidates: candidates(
          ["o", "field_mismatch", false, 2, false],
          ["n-even", "field_mismatch", false, 2, false],
          ["n", "excluded_by_user", true, 1, false],
          ["list", "field_mismatch", false, 2, false],
          ["_all_docs", "excluded_by_user", true, 1, null],
        ),
      },
    ),
    explain(
      "takes an index that is named by its design document and itself",
      { selector: { n: 1, even: true }, use_index: ["_design/n", "n"] },
      { index: INDEXES.n, opts: { use_index: ["_design/n", "n"] } },
    ),
    explain(
      "takes another index than one that is named and does not serve",
      { selector: one, use_index: ["o", "o"] },
      { index: INDEXES.n, opts: { use_index: ["o", "o"] } },
    ),
    {
      name: "refuses a named unusable index if fallback is disabled",
      ask: "POST /films/_explain",
      body: { selector: one, use_index: ["o", "o"], allow_fallback: false },
      ...refusal(
        400,
        "invalid_index",
        "_design/o, o specified by `use_index` could not be found or it is not suitable.",
      ),
    },
    {
      name: "refuses a design document without a usable index if fallback is disabled",
      ask: "POST /films/_explain",
      body: { selector: one, use_index: "o", allow_fallback: false },
      ...refusal(
        400,
        "invalid_index",
        "_design/o specified by `use_index` could not be found or it is not suitable.",
      ),
    },
    explain(
      "tells which fields an index could serve, and which not",
      {
        selector: {
          a: { $in: [1] },
          b: { $gte: 1 },
          $or: [{ c: 1 }, { d: 2 }],
          e: { $not: { $eq: 1 } },
          f: { $elemMatch: { g: 1 } },
          h: { $exists: false },
          i: { $beginsWith: "i" },
          j: { $regex: "j" },
        },
      },
      {
        selector_hints: [
          {
            type: "json",
            indexable_fields: ["b", "h", "i"],
            unindexable_fields: ["a", "c", "d", "e", "f", "j"],
          },
        ],
      },
    ),
    explain(
      "tells what was asked for",
      { selector: one, conflicts: true, r: 2, stale: "ok", execution_stats: true, skip: 1 },
      {
        opts: { conflicts: true, r: 2, stale: "ok", execution_stats: true, skip: 1 },
        mrargs: { include_docs: false, conflicts: true, stable: true, update: false },
      },
    ),
  ]);

  describe("covering", () => {
    testRows(INDEXED, [
      explain("is an index that has all fields", { selector: one, fields: ["n"] }, covering),
      explain("is an index for ids", { selector: one, fields: ["_id"] }, covering),
      explain(
        "is an index with the fields of the selector",
        { selector: { n: 1, even: { $ne: true } }, fields: ["_id"], use_index: "n-even" },
        covering,
      ),
      explain(
        "is an index with a field inside of another one",
        { selector: { "o.x": { $gt: "x1" } }, fields: ["o.x"] },
        covering,
      ),
      explain(
        "is an index with the list that `$elemMatch` tests",
        { selector: { list: { $elemMatch: { b: 1 } } }, fields: ["list"], use_index: "list" },
        covering,
      ),
      explain(
        "is an index with the requested sort order",
        { selector: {}, sort: ["n"], fields: ["n"] },
        covering,
      ),
      explain(
        "is a partial index that is named",
        { selector: one, fields: ["n"], use_index: "some" },
        covering,
      ),
      explain("is no index for whole documents", { selector: one }, reading),
      explain("is no index for revisions", { selector: one, fields: ["n", "_rev"] }, reading),
      explain(
        "is no index that lacks a field of the selector",
        { selector: { n: 1, "o.y": 1 }, fields: ["n"] },
        reading,
      ),
      explain(
        "is no index for what lies inside of its field",
        { selector: { list: { $exists: true } }, fields: ["list.0"] },
        reading,
      ),
      explain(
        "is not that of all documents",
        { selector: { _id: "d1" }, fields: ["_id"] },
        { ...reading, index: ALL_DOCUMENTS },
      ),
      explain(
        "is told of other indexes, whatever the selector",
        { selector: { n: 1, "o.x": "x1" }, fields: ["n"] },
        {
          index: INDEXES.n,
          index_candidates: candidates(
            ["some", "is_partial", false, 4, true],
            ["o", "less_overlap", true, 1, false],
            ["n-even", "field_mismatch", false, 3, true],
            ["list", "field_mismatch", false, 3, false],
            ["_all_docs", "unfavored_type", true, 2, null],
          ),
        },
      ),
    ]);
  });
});

function find(name: string, body: object, has: object, row: Partial<Row> = {}): Row {
  return { name, ask: "POST /films/_find", body, status: 200, has, ...row };
}

function statistics(keys: number, documents: number, results: number) {
  return {
    execution_stats: {
      total_keys_examined: keys,
      total_docs_examined: documents,
      total_quorum_docs_examined: 0,
      results_returned: results,
      execution_time_ms: expect.any(Number),
    },
  };
}

const counted = { execution_stats: true };

describe("_find", () => {
  testRows(INDEXED, [
    find(
      "reads no documents where the index covers the query",
      { selector: { n: { $gte: 5 } }, fields: ["n", "_id"], ...counted },
      {
        docs: [
          { n: 5, _id: "d5" },
          { n: 6, _id: "d6" },
        ],
        ...statistics(2, 0, 2),
      },
    ),
    find(
      "passes over entries that do not match",
      {
        selector: { n: { $gte: 2 }, even: { $ne: true } },
        fields: ["even", "_id"],
        use_index: "n-even",
        ...counted,
      },
      {
        docs: [
          { even: false, _id: "d3" },
          { even: false, _id: "d5" },
        ],
        ...statistics(5, 0, 2),
      },
    ),
    find(
      "answers a field inside of another one from the index",
      { selector: { "o.x": { $gte: "x5" } }, fields: ["o.x"], ...counted },
      { docs: [{ o: { x: "x5" } }, { o: { x: "x6" } }], ...statistics(2, 0, 2) },
    ),
    find(
      "reads the documents where the index lacks a field",
      { selector: { n: { $gte: 5 } }, fields: ["n", "even"], ...counted },
      {
        docs: [
          { n: 5, even: false },
          { n: 6, even: true },
        ],
        ...statistics(2, 2, 2),
      },
    ),
    find(
      "lets a whole list stay before one of its elements",
      { selector: { n: 1 }, fields: ["list", "list.0.b"] },
      { docs: [{ list: [{ b: 1 }, { b: 0 }] }] },
      { differs: "CouchDB fails with 500" },
    ),
    find(
      "finds through a partial index what is in it",
      { selector: { n: { $gt: 1 } }, fields: ["n"], use_index: "some" },
      { docs: [{ n: 2 }, { n: 4 }, { n: 6 }] },
    ),
    find(
      "warns of an index that does not serve",
      { selector: { n: 1 }, fields: ["n"], use_index: ["o", "o"] },
      {
        docs: [{ n: 1 }],
        warning: "_design/o, o was not used because it is not a valid index for this query.",
      },
    ),
    find(
      "warns of a design document without an index that serves",
      { selector: { "o.y": { $gte: 5 } }, fields: ["n"], use_index: "o" },
      {
        docs: [{ n: 5 }, { n: 6 }],
        warning:
          "_design/o was not used because it does not contain a valid index for this query.\nNo matching index found, create an index to optimize query time.",
      },
    ),
    {
      name: "refuses a sort without an index",
      ask: "POST /films/_find",
      body: { selector: one, sort: ["none"] },
      ...refusal(
        400,
        "no_usable_index",
        "No index exists for this sort, try indexing by the sort fields.",
      ),
    },
  ]);
});
