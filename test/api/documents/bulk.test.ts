import { describe, expect, test } from "vitest";
import { type Asked, openFilms } from "../api.fixture.ts";
import { FILMS, refusal, testRows } from "../rows.ts";

const conflict = { error: "conflict", reason: "Document update conflict." };

test.each(["_bulk_docs", "_revs_diff"])("%s accepts only JSON", async (path) => {
  const { ask } = await openFilms();
  const headers = { "Content-Type": "application/xml" };
  const answer = await ask(`POST /films/${path}`, { body: '{"docs":[]}', headers });
  expect(answer).toMatchObject({ status: 415, json: { error: "bad_content_type" } });
});

describe("_bulk_docs", () => {
  testRows(FILMS, [
    {
      name: "all_or_nothing is refused, as in CouchDB",
      ask: "POST /films/_bulk_docs",
      body: { all_or_nothing: true, docs: [{ _id: "a" }] },
      status: 417,
      json: [
        { id: "a", rev: "0-", error: "not_implemented", reason: "all_or_nothing is not supported" },
      ],
    },
  ]);

  test("reports the outcome of each edit at the document's index", async () => {
    const { ask } = await openFilms();
    const { rev } = (await ask("PUT /films/a", { body: {} })).json;
    const docs = [{ _id: "b" }, { _id: "a" }, {}, { _id: "a", _rev: rev }, { _id: "b" }];
    const answer = await ask("POST /films/_bulk_docs", { body: { docs } });
    expect(answer.status).toBe(201);
    expect(answer.json).toEqual([
      { ok: true, id: "b", rev: expect.stringMatching(/^1-/) },
      { id: "a", ...conflict },
      { ok: true, id: expect.stringMatching(/^[0-9a-f]{32}$/), rev: expect.stringMatching(/^1-/) },
      { ok: true, id: "a", rev: expect.stringMatching(/^2-/) },
      { id: "b", ...conflict },
    ]);
  });

  test("returns no row for a replicated revision that was written", async () => {
    const { ask } = await openFilms();
    const docs = [
      { _id: "a", _rev: "3-c", _revisions: { start: 3, ids: ["c", "b", "a"] } },
      { _id: "a", _rev: "2-x", _revisions: { start: 2, ids: ["x", "a"] } },
      { _id: "_local/l", _rev: "0-3", n: 1 },
    ];
    const body = { new_edits: false, docs };
    expect(await ask("POST /films/_bulk_docs", { body })).toMatchObject({ status: 201, json: [] });
    expect(await ask("POST /films/_bulk_docs", { body })).toMatchObject({ status: 201, json: [] });
    expect((await ask("GET /films/a?conflicts=true&revs=true")).json).toEqual({
      _id: "a",
      _rev: "3-c",
      _revisions: { start: 3, ids: ["c", "b", "a"] },
      _conflicts: ["2-x"],
    });
    expect((await ask("GET /films/_local/l")).json).toMatchObject({ n: 1 });
  });

  test("stores revisions with generation 0 or without a hash, as CouchDB does", async () => {
    const { ask } = await openFilms();
    const revisions = { a: ["1-"], b: ["9999-"], c: ["0-x"], d: ["0-"] };
    const docs = Object.entries(revisions).map(([_id, [_rev]]) => ({ _id, _rev }));
    const body = { new_edits: false, docs };
    expect(await ask("POST /films/_bulk_docs", { body })).toMatchObject({ status: 201, json: [] });
    for (const { _id, _rev } of docs) {
      expect((await ask(`GET /films/${_id}?rev=${_rev}`)).json).toEqual({ _id, _rev });
    }
    expect((await ask("POST /films/_revs_diff", { body: revisions })).json).toEqual({});
  });

  test.each(["01-a", "+1-a", "0000000000000000000001-a"])(
    "stores the revision %s as 1-a, as CouchDB does",
    async (_rev) => {
      const { ask } = await openFilms();
      const body = { new_edits: false, docs: [{ _id: "a", _rev }] };
      const answer = await ask("POST /films/_bulk_docs", { body });
      expect(answer).toMatchObject({ status: 201, json: [] });
      expect((await ask("GET /films/a")).json).toEqual({ _id: "a", _rev: "1-a" });
      const rev = encodeURIComponent(_rev);
      expect((await ask(`GET /films/a?rev=${rev}`)).json).toEqual({ _id: "a", _rev: "1-a" });
      const put = { body: { _rev, n: 1 } };
      expect((await ask("PUT /films/a?new_edits=false", put)).status).toBe(201);
      expect((await ask(`DELETE /films/a?rev=${rev}`)).status).toBe(200);
    },
  );

  test.each(["x-a", "-1-a", "1", "1.0-a", "1e1-a", " 1-a", `${"9".repeat(16)}-a`, 7, ["1-a"]])(
    "refuses the replicated revision %j, and writes the other documents",
    async (_rev) => {
      const { ask } = await openFilms();
      const docs = [
        { _id: "a", _rev: "1-a" },
        { _id: "b", _rev },
        { _id: "c", _rev: "1-c" },
      ];
      const answer = await ask("POST /films/_bulk_docs", { body: { new_edits: false, docs } });
      const row = { id: "b", error: "bad_request", reason: "Invalid rev format" };
      expect(answer).toMatchObject({ status: 201, json: [row] });
      const { rows } = (await ask("GET /films/_all_docs")).json;
      expect(rows.map(({ id }: { id: string }) => id)).toEqual(["a", "c"]);
    },
  );

  test("reports each replicated revision that cannot be stored, and writes the other revisions", async () => {
    const { ask } = await openFilms();
    const docs = [
      { _id: "a", _rev: "1-a" },
      { _id: "x".repeat(8_000), _rev: "1-b" },
      { _id: "c", _rev: "1-c", _nosuch: 1 },
      { _id: "d", _rev: "1-d", _attachments: { x: { stub: true } } },
      { _id: "e", _rev: "1-e" },
    ];
    const answer = await ask("POST /films/_bulk_docs", { body: { new_edits: false, docs } });
    expect(answer.status).toBe(201);
    expect(answer.json.map((row: { rev: string; error: string }) => [row.rev, row.error])).toEqual([
      ["1-b", "illegal_docid"],
      ["1-c", "doc_validation"],
      ["1-d", "missing_stub"],
    ]);
    expect((await ask("GET /films/e")).status).toBe(200);
  });

  test("reports a hook's refusal at the document's index", async () => {
    const { ask } = await openFilms({
      hooks: [
        {
          appliesTo: () => true,
          beforeWrite: async (_tx, _database, edit) =>
            edit.id === "b" ? { rejected: "forbidden", reason: "not here" } : { edit },
        },
      ],
    });
    const docs = [{ _id: "a" }, { _id: "b" }];
    const answer = await ask("POST /films/_bulk_docs", { body: { docs } });
    expect(answer.json).toEqual([
      { ok: true, id: "a", rev: expect.any(String) },
      { id: "b", error: "forbidden", reason: "not here" },
    ]);
    expect(await ask("PUT /films/b", { body: {} })).toMatchObject(
      refusal(403, "forbidden", "not here"),
    );
  });

  test("reports the store's refusal at the document's index, and writes the other documents in order", async () => {
    const { ask } = await openFilms();
    const docs = [
      { _id: "a", n: 1 },
      { _id: "b", _attachments: { ["x".repeat(2_000)]: { data: "" } } },
      { _id: "a", n: 2 },
      { _id: "c" },
    ];
    const answer = await ask("POST /films/_bulk_docs", { body: { docs } });
    expect(answer.json).toEqual([
      { ok: true, id: "a", rev: expect.any(String) },
      { id: "b", error: "bad_request", reason: expect.stringContaining("too long") },
      { id: "a", error: "conflict", reason: "Document update conflict." },
      { ok: true, id: "c", rev: expect.any(String) },
    ]);
    expect((await ask("GET /films/a")).json).toMatchObject({ n: 1 });
  });

  test("writes more documents than fit in one transaction", async () => {
    const { ask } = await openFilms();
    const text = "x".repeat(60_000);
    const docs = Array.from({ length: 350 }, (_, index) => ({ _id: `d${index}`, text }));
    const answer = await ask("POST /films/_bulk_docs", { body: { docs } });
    expect(answer.json).toHaveLength(350);
    expect((await ask("GET /films")).json.doc_count).toBe(350);
  });

  testRows(FILMS, [
    {
      name: "accepts an empty list",
      ask: "POST /films/_bulk_docs",
      body: { docs: [] },
      status: 201,
      json: [],
    },
    {
      name: "requires documents",
      ask: "POST /films/_bulk_docs",
      body: {},
      ...refusal(400, "bad_request", "POST body must include `docs` parameter."),
    },
    {
      name: "requires a list of documents",
      ask: "POST /films/_bulk_docs",
      body: { docs: {} },
      ...refusal(400, "bad_request", "`docs` parameter must be an array."),
    },
    {
      name: "requires each document to be an object",
      ask: "POST /films/_bulk_docs",
      body: { docs: [1] },
      ...refusal(400, "bad_request", "Document must be a JSON object"),
    },
    {
      name: "requires a boolean for new_edits",
      ask: "POST /films/_bulk_docs",
      body: { docs: [], new_edits: "no" },
      ...refusal(400, "bad_request", "`new_edits` parameter must be a boolean."),
    },
    {
      name: "requires JSON",
      ask: "POST /films/_bulk_docs",
      body: "docs=1",
      headers: { "Content-Type": "application/x-www-form-urlencoded" },
      ...refusal(415, "bad_content_type", "Content-Type must be application/json"),
    },
    {
      name: "requires complete JSON",
      ask: "POST /films/_bulk_docs",
      body: '{"docs":[{"a":1},',
      ...refusal(400, "bad_request", "invalid UTF-8 JSON"),
    },
    {
      name: "requires an existing database",
      ask: "POST /nope/_bulk_docs",
      body: { docs: [] },
      ...refusal(404, "not_found", "Database does not exist."),
    },
    {
      name: "writes no document if one of a user's documents is malformed",
      ask: "POST /films/_bulk_docs",
      body: { docs: [{ _id: "a" }, { _id: "b", _nosuch: 1 }] },
      ...refusal(400, "doc_validation", "Bad special document member: _nosuch"),
    },
    {
      name: "supports no other methods",
      ask: "GET /films/_bulk_docs",
      status: 405,
      answers: { Allow: "POST" },
    },
  ]);
});

/** Opens the API with a document `a` that has the leaves `3-c` and `2-x`. */
async function openConflict<Api extends Asked>(open: () => Promise<Api>): Promise<Api> {
  const api = await open();
  const docs = [
    { _id: "a", _revisions: { start: 3, ids: ["c", "b", "a"] }, n: 3 },
    { _id: "a", _revisions: { start: 2, ids: ["x", "a"] }, n: 2 },
  ];
  await api.ask("POST /films/_bulk_docs", { body: { new_edits: false, docs } });
  return api;
}

describe("_revs_diff", () => {
  testRows(openConflict, [
    {
      name: "reports missing revisions and their possible ancestors",
      ask: "POST /films/_revs_diff",
      body: { a: ["3-c", "1-a", "4-d"], b: ["1-z"] },
      status: 200,
      json: {
        a: { missing: ["4-d"], possible_ancestors: ["3-c", "2-x"] },
        b: { missing: ["1-z"] },
      },
    },
    {
      name: "omits existing revisions",
      ask: "POST /films/_revs_diff",
      body: { a: ["2-x"] },
      status: 200,
      json: {},
    },
    {
      name: "accepts an empty object",
      ask: "POST /films/_revs_diff",
      body: {},
      status: 200,
      json: {},
    },
    {
      name: "accepts an id that a document cannot have",
      ask: "POST /films/_revs_diff",
      body: { _x: ["1-a"], "": ["1-b"] },
      status: 200,
      json: { _x: { missing: ["1-a"] }, "": { missing: ["1-b"] } },
    },
    {
      name: "names the document with invalid revisions",
      differs: "CouchDB fails with function_clause",
      ask: "POST /films/_revs_diff",
      body: { a: "1-a" },
      ...refusal(400, "bad_request", 'The revisions of "a" must be a JSON array of strings'),
    },
    {
      name: "refuses an invalid revision",
      ask: "POST /films/_revs_diff",
      body: { a: ["x"] },
      ...refusal(400, "bad_request", "Invalid rev format"),
    },
    {
      name: "refuses a list",
      ask: "POST /films/_revs_diff",
      body: [],
      ...refusal(400, "bad_request", "Request body must be a JSON object"),
    },
    {
      name: "has the older variant _missing_revs",
      ask: "POST /films/_missing_revs",
      body: { a: ["3-c", "4-d"] },
      status: 200,
      json: { missing_revs: { a: ["4-d"] } },
    },
  ]);
});

const badResult = (id: string | null, rev: string | null, reason: string) => ({
  id,
  docs: [{ error: { id, rev, error: "bad_request", reason } }],
});

describe("_bulk_get", () => {
  const c = { _id: "a", _rev: "3-c", n: 3 };
  const x = { _id: "a", _rev: "2-x", n: 2 };
  const missing = (rev: string, error = "not_found", reason = "missing") => ({
    error: { id: "a", rev, error, reason },
  });

  testRows(openConflict, [
    {
      name: "returns revisions in the requested order",
      ask: "POST /films/_bulk_get",
      body: {
        docs: [
          { id: "a", rev: "2-x" },
          { id: "a", rev: "3-c", atts_since: ["1-a"] },
        ],
      },
      status: 200,
      json: {
        results: [
          { id: "a", docs: [{ ok: x }] },
          { id: "a", docs: [{ ok: c }] },
        ],
      },
    },
    {
      name: "returns all leaves if the request names no revision",
      ask: "POST /films/_bulk_get",
      body: { docs: [{ id: "a" }] },
      status: 200,
      json: { results: [{ id: "a", docs: [{ ok: c }, { ok: x }] }] },
    },
    {
      name: "accepts its options in the body",
      differs: "CouchDB reads them from the query alone",
      ask: "POST /films/_bulk_get",
      body: { revs: true, latest: true, docs: [{ id: "a", rev: "2-b" }] },
      status: 200,
      has: {
        results: [{ docs: [{ ok: { ...c, _revisions: { start: 3, ids: ["c", "b", "a"] } } }] }],
      },
    },
    {
      name: "reports missing revisions at their positions in the request",
      ask: "POST /films/_bulk_get",
      body: {
        docs: [
          { id: "a", rev: "9-z" },
          { id: "a", rev: "x" },
        ],
      },
      status: 200,
      json: {
        results: [
          { id: "a", docs: [missing("9-z")] },
          { id: "a", docs: [missing("x", "bad_request", "Invalid rev format")] },
        ],
      },
    },
    {
      name: "reports a missing document",
      ask: "POST /films/_bulk_get",
      body: { docs: [{ id: "b" }] },
      status: 200,
      has: { results: [{ docs: [{ error: { id: "b", rev: "undefined", error: "not_found" } }] }] },
    },
    {
      name: "accepts an empty list",
      ask: "POST /films/_bulk_get",
      body: { docs: [] },
      status: 200,
      json: { results: [] },
    },
    {
      name: "requires documents",
      ask: "POST /films/_bulk_get",
      body: {},
      ...refusal(400, "bad_request", "Missing JSON list of 'docs'."),
    },
    {
      name: "reports an invalid request at its position",
      ask: "POST /films/_bulk_get",
      body: { docs: [{ rev: "1-a" }, { id: "nope", rev: "x" }, { id: "nope" }] },
      status: 200,
      json: {
        results: [
          badResult(null, null, "document id missed"),
          badResult("nope", "x", "Invalid rev format"),
          {
            id: "nope",
            docs: [
              { error: { id: "nope", rev: "undefined", error: "not_found", reason: "missing" } },
            ],
          },
        ],
      },
    },
    {
      name: "reports requests with a member of the wrong type",
      differs: "CouchDB fails",
      ask: "POST /films/_bulk_get",
      body: {
        docs: [
          { id: 1, rev: "1-a" },
          { id: "a", rev: 1 },
          { id: "a", atts_since: [1] },
        ],
      },
      status: 200,
      json: {
        results: [
          badResult(null, null, "Document id must be a string"),
          badResult("a", null, "Invalid rev format"),
          badResult("a", null, "`atts_since` must be an array of strings"),
        ],
      },
    },
  ]);

  test("returns more documents than one transaction reads", async () => {
    const { ask } = await openFilms();
    const docs = Array.from({ length: 260 }, (_, index) => ({ _id: `d${index}` }));
    await ask("POST /films/_bulk_docs", { body: { docs } });
    const answer = await ask("POST /films/_bulk_get", {
      body: { docs: docs.map(({ _id }) => ({ id: _id })) },
    });
    expect(answer.json.results.map((row: { id: string }) => row.id)).toEqual(
      docs.map(({ _id }) => _id),
    );
  });
});
