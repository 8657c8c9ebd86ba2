import { describe, expect, test } from "vitest";
import { type Asked, openFilms } from "../api.fixture.ts";
import { type Row, refusal, testRows } from "../rows.ts";

/**
 * Opens a database with documents `a` to `e`, the deleted document `gone`, and a design document.
 */
async function openLetters<Api extends Asked>(open: () => Promise<Api>): Promise<Api> {
  const api = await open();
  const letters = ["a", "b", "c", "d", "e"].map((_id) => ({ _id, _rev: `1-${_id}`, letter: _id }));
  const docs = [
    ...letters,
    { _id: "gone", _rev: "1-g", _deleted: true },
    { _id: "_design/x", _rev: "1-x" },
    { _id: "_local/l", _rev: "0-1" },
  ];
  await api.ask("POST /films/_bulk_docs", { body: { new_edits: false, docs } });
  return api;
}

const OFFSET = "CouchDB counts the rows before a start key, which takes a scan";

const KEYS_WITH_RANGE = "`keys` is incompatible with `key`, `start_key` and `end_key`";

function row(id: string) {
  return { id, key: id, value: { rev: `1-${id.replace("_design/", "")}` } };
}

/** Returns the row of a query whose response must contain these ids. */
function lists(query: string, ids: readonly string[], offset: number | null = null): Row {
  return {
    name: `answers ${query || "nothing special"} with ${ids.join(" ") || "no row"}`,
    ask: `GET /films/_all_docs${query}`,
    status: 200,
    json: { total_rows: 6, offset, rows: ids.map(row) },
    ...(offset === null && query !== "" ? { differs: OFFSET } : {}),
  };
}

describe("_all_docs", () => {
  test("accepts both spellings of the start and end keys", async () => {
    const { ask } = await openLetters(openFilms);
    const idsOf = async (request: string, body?: object) =>
      (await ask(request, { body })).json.rows.map(({ id }: { id: string }) => id);
    const long = "start_key_doc_id=b&end_key_doc_id=d";
    expect(await idsOf(`GET /films/_all_docs?${long}`)).toEqual(["b", "c", "d"]);
    const body = { startkey_docid: "c", endkey_docid: "d", end_key_doc_id: "e" };
    expect(await idsOf("POST /films/_all_docs", body)).toEqual(["c", "d"]);
    const design = "start_key_doc_id=_design/y";
    expect(await idsOf(`GET /films/_design_docs?${design}`)).toEqual([]);
    expect(await idsOf("GET /films/_local_docs?end_key_doc_id=_local/k")).toEqual([]);
  });

  test("accepts capitalized booleans, as some clients write them", async () => {
    const { ask } = await openLetters(openFilms);
    const plain = await ask("GET /films/_all_docs?include_docs=true&descending=false");
    expect((await ask("GET /films/_all_docs?include_docs=True&descending=False")).json).toEqual(
      plain.json,
    );
    const posted = await ask("POST /films/_all_docs", { body: { include_docs: "TRUE" } });
    expect(posted.json).toEqual(plain.json);
    const changes = await ask("GET /films/_changes?include_docs=True&limit=1");
    expect(changes.json.results[0].doc).toEqual({ _id: "a", _rev: "1-a", letter: "a" });
  });

  testRows(openLetters, [
    lists("", ["_design/x", "a", "b", "c", "d", "e"], 0),
    lists("?limit=2", ["_design/x", "a"], 0),
    lists("?limit=0", [], 0),
    lists("?skip=2&limit=2", ["b", "c"], 2),
    lists("?skip=9", [], 6),
    lists("?descending=true&limit=2", ["e", "d"], 0),
    lists('?startkey="b"&endkey="d"', ["b", "c", "d"]),
    lists('?start_key="b"&end_key="d"&inclusive_end=false', ["b", "c"]),
    lists('?startkey="d"&endkey="b"&descending=true', ["d", "c", "b"]),
    lists('?startkey="d"&endkey="b"', []),
    lists('?key="c"', ["c"]),
    lists('?key="gone"', []),
    lists("?startkey_docid=d", ["d", "e"]),
    lists('?startkey="d"&endkey={}', ["d", "e"]),
    lists("?startkey=null", ["_design/x", "a", "b", "c", "d", "e"], 0),
    {
      ...lists("?startkey={}", [], 0),
      differs: "CouchDB begins with the first id, though no id sorts after an object",
    },
    lists("?key=1", [], 0),
    lists("?key=null", [], 0),
    lists("?endkey=null", [], 0),
    { ...lists("?startkey=null&descending=true", [], 0), differs: OFFSET },
    {
      name: "returns rows in the order of the requested keys, including deleted and unknown documents",
      ask: "POST /films/_all_docs",
      body: { keys: ["c", "nope", "gone", "a", "_x"], include_docs: true },
      status: 200,
      json: {
        total_rows: 6,
        offset: null,
        rows: [
          { ...row("c"), doc: { _id: "c", _rev: "1-c", letter: "c" } },
          { key: "nope", error: "not_found" },
          { id: "gone", key: "gone", value: { rev: "1-g", deleted: true }, doc: null },
          { ...row("a"), doc: { _id: "a", _rev: "1-a", letter: "a" } },
          { key: "_x", error: "not_found" },
        ],
      },
    },
    {
      name: "omits keys of other documents at _design_docs",
      ask: 'GET /films/_design_docs?keys=["a","_design/x","_design/nope"]',
      status: 200,
      has: { rows: [row("_design/x"), { key: "_design/nope", error: "not_found" }] },
    },
    {
      name: "omits keys of other documents at _local_docs",
      ask: 'GET /films/_local_docs?keys=["a","_local/l"]',
      status: 200,
      has: { rows: [{ id: "_local/l" }] },
    },
    {
      name: "accepts the keys in the query of the URL",
      ask: 'GET /films/_all_docs?keys=["b","a"]&skip=1',
      status: 200,
      has: { rows: [row("a")] },
    },
    {
      name: "returns documents and the sequence",
      ask: "GET /films/_all_docs?include_docs=true&update_seq=true&limit=1&skip=1",
      status: 200,
      has: {
        update_seq: expect.stringMatching(/^[0-9]+-/),
        rows: [{ doc: { _id: "a", _rev: "1-a", letter: "a" } }],
      },
    },
    {
      name: "accepts a range in the body",
      ask: "POST /films/_all_docs",
      body: { startkey: "d", limit: 1 },
      status: 200,
      has: { rows: [row("d")] },
    },
    {
      name: "lists design documents",
      ask: "GET /films/_design_docs",
      status: 200,
      json: { total_rows: 1, offset: 0, rows: [row("_design/x")] },
    },
    {
      name: "answers several queries independently",
      ask: "POST /films/_all_docs/queries?limit=2",
      body: { queries: [{ limit: 1 }, { keys: ["a", "nope"] }, { startkey: "c" }] },
      status: 200,
      has: {
        results: [
          { total_rows: 6, offset: 0, rows: [row("_design/x")] },
          { total_rows: 6, offset: null, rows: [row("a"), { key: "nope", error: "not_found" }] },
          { total_rows: 6, rows: [row("c"), row("d")] },
        ],
      },
    },
    {
      name: "answers an empty list of queries with no result",
      ask: "POST /films/_all_docs/queries",
      body: { queries: [] },
      status: 200,
      json: { results: [] },
    },
    {
      name: "requires queries",
      ask: "POST /films/_all_docs/queries",
      body: {},
      ...refusal(400, "bad_request", "POST body must include `queries` parameter."),
    },
    {
      name: "requires a list of queries",
      ask: "POST /films/_all_docs/queries",
      body: { queries: "x" },
      ...refusal(400, "bad_request", "`queries` member must be an array."),
    },
    {
      name: "accepts queries only by POST",
      ask: "GET /films/_all_docs/queries",
      ...refusal(405, "method_not_allowed", "Only POST allowed"),
    },
    {
      name: "answers several queries for design documents",
      ask: "POST /films/_design_docs/queries",
      body: { queries: [{ limit: 1 }] },
      status: 200,
      has: { results: [{ total_rows: 1, offset: 0, rows: [row("_design/x")] }] },
    },
    {
      name: "answers several queries for local documents",
      ask: "POST /films/_local_docs/queries",
      body: { queries: [{ limit: 1 }] },
      status: 200,
      has: { results: [{ total_rows: null, rows: [{ id: "_local/l" }] }] },
    },
    {
      name: "lists local documents",
      ask: "GET /films/_local_docs?include_docs=true",
      status: 200,
      has: { rows: [{ id: "_local/l", doc: { _id: "_local/l" } }] },
    },
    {
      name: "refuses an invalid limit",
      ask: "GET /films/_all_docs?limit=x",
      ...refusal(400, "query_parse_error", 'Invalid value for integer: "x"'),
    },
    {
      name: "refuses a negative limit",
      differs: "Tandem names the parameter",
      ask: "GET /films/_all_docs?limit=-1",
      ...refusal(400, "query_parse_error", "`limit` must be a non-negative integer, not -1"),
    },
    {
      name: "refuses an invalid flag",
      ask: "GET /films/_all_docs?include_docs=x",
      ...refusal(400, "query_parse_error", 'Invalid boolean parameter: "x"'),
    },
    {
      name: "refuses reduce",
      ask: "POST /films/_all_docs",
      body: { reduce: true },
      ...refusal(400, "query_parse_error", "Reduce is invalid for map-only views."),
    },
    ...["group=true", "group_level=1"].map((query) => ({
      name: `does not group (${query})`,
      ask: `GET /films/_all_docs?${query}`,
      ...refusal(400, "query_parse_error", "Invalid use of grouping on a map view."),
    })),
    {
      name: "refuses a key that is not JSON",
      differs: "Tandem reports the error of a query",
      ask: "GET /films/_all_docs?startkey=a",
      ...refusal(400, "query_parse_error", "invalid UTF-8 JSON"),
    },
    {
      name: "refuses keys that are not a list",
      ask: "POST /films/_all_docs",
      body: { keys: "a" },
      ...refusal(400, "bad_request", "`keys` body member must be an array."),
    },
    ...[
      'GET /films/_all_docs?keys=["a","b"]&key="a"',
      'GET /films/_all_docs?keys=["a"]&startkey="b"',
    ].map((ask) => ({
      name: `refuses keys together with a range (${ask})`,
      ask,
      ...refusal(400, "query_parse_error", KEYS_WITH_RANGE),
    })),
    {
      name: "refuses keys together with an end in the body",
      ask: "POST /films/_all_docs",
      body: { keys: ["a", "b"], end_key: "b" },
      ...refusal(400, "query_parse_error", KEYS_WITH_RANGE),
    },
    {
      name: "accepts a key that is the only one of the keys",
      ask: 'GET /films/_all_docs?keys=["a"]&key="a"',
      status: 200,
      has: { rows: [row("a")] },
    },
    {
      name: "finds nothing for keys that are not ids",
      ask: "POST /films/_all_docs",
      body: { keys: [1, "a", null, {}] },
      status: 200,
      has: {
        rows: [
          { key: 1, error: "not_found" },
          expect.objectContaining({ id: "a" }),
          { key: null, error: "not_found" },
          { key: {}, error: "not_found" },
        ],
      },
    },
    {
      name: "refuses a key that is too long",
      onlyHere: "It has other limits for a request line",
      ask: `GET /films/_all_docs?startkey="${"x".repeat(20_000)}"`,
      ...refusal(400, "bad_request", "A key in the request is too long"),
    },
    {
      name: "reports a missing database",
      ask: "GET /nope/_all_docs",
      ...refusal(404, "not_found", "Database does not exist."),
    },
  ]);

  test("preserves the digits of numbers in the keys that it returns", async () => {
    const { ask } = await openFilms();
    const body = (text: string) => ({
      body: text,
      headers: { "content-type": "application/json" },
    });
    const keys = await ask("POST /films/_all_docs", body('{"keys":[9007199254740993,[1.0]]}'));
    expect(keys.text).toContain('{"key":9007199254740993,"error":"not_found"}');
    expect(keys.text).toContain('{"key":[1.0],"error":"not_found"}');
    const flag = await ask("POST /films/_all_docs", body('{"include_docs":9007199254740993}'));
    expect(flag).toMatchObject({
      status: 400,
      json: { reason: "Invalid boolean parameter: 9007199254740993" },
    });
  });

  test("returns each document once across many pages", async () => {
    const { ask } = await openFilms();
    const ids = Array.from({ length: 2_300 }, (_, index) => `d${String(index).padStart(5, "0")}`);
    await ask("POST /films/_bulk_docs", { body: { docs: ids.map((_id) => ({ _id })) } });
    const idsOf = async (query: string): Promise<string[]> => {
      const { rows } = (await ask(`GET /films/_all_docs${query}`)).json;
      return rows.map(({ id }: { id: string }) => id);
    };
    expect(await idsOf("")).toEqual(ids);
    expect(await idsOf("?include_docs=true&descending=true")).toEqual([...ids].reverse());
    expect(await idsOf("?skip=1500&limit=700")).toEqual(ids.slice(1_500, 2_200));
  });
});

test.each(["startkey", "start_key", "endkey", "key", "keys"])(
  "answers 400 to a %s that contains an unpaired surrogate, in the URL or in a body",
  async (name) => {
    const { ask } = await openFilms();
    const key = name === "keys" ? ["\ud83d"] : "\ud83d";
    const refused = { status: 400, json: { error: "query_parse_error" } };
    const text = encodeURIComponent(JSON.stringify(key));
    expect(await ask(`GET /films/_all_docs?${name}=${text}`)).toMatchObject(refused);
    const posted = await ask("POST /films/_all_docs", { body: { [name]: key } });
    expect(posted.status).toBe(400);
  },
);
