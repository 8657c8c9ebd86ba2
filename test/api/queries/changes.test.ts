import { describe, expect, test } from "vitest";
import { type Asked, openFilms } from "../api.fixture.ts";
import { refusal, testRows } from "../rows.ts";

/**
 * Opens a database with a document `a`, a document `b` with two leaves, a deleted document `gone`,
 * and a design document.
 */
async function openChanges<Api extends Asked>(open: () => Promise<Api>): Promise<Api> {
  const api = await open();
  const docs = [
    { _id: "a", _rev: "1-a", n: 1 },
    { _id: "b", _rev: "1-b", n: 2 },
    { _id: "b", _rev: "1-c", n: 3 },
    { _id: "gone", _revisions: { start: 2, ids: ["e", "d"] }, _deleted: true },
    { _id: "_design/x", _rev: "1-x" },
  ];
  for (const doc of docs) {
    await api.ask("POST /films/_bulk_docs", { body: { new_edits: false, docs: [doc] } });
  }
  return api;
}

const seq = expect.stringMatching(/^[0-9]+-/);
const a = { seq, id: "a", changes: [{ rev: "1-a" }] };
const b = { seq, id: "b", changes: [{ rev: "1-c" }] };
const gone = { seq, id: "gone", changes: [{ rev: "2-e" }], deleted: true };
const design = { seq, id: "_design/x", changes: [{ rev: "1-x" }] };

function feed(results: readonly unknown[], pending = 0) {
  return { status: 200, json: { results, last_seq: seq, pending } };
}

describe("a normal feed", () => {
  testRows(openChanges, [
    {
      name: "contains each document once, at its last change",
      ask: "GET /films/_changes",
      ...feed([a, b, gone, design]),
    },
    { name: "stops at its limit", ask: "GET /films/_changes?limit=1", ...feed([a], 3) },
    {
      name: "with a limit of 0 contains only the number of pending changes",
      differs: "The first sequence is 0 here",
      ask: "GET /films/_changes?limit=0",
      status: 200,
      json: { results: [], last_seq: "0", pending: 4 },
    },
    {
      name: "is returned in descending order",
      ask: "GET /films/_changes?descending=true&limit=2",
      ...feed([design, gone], 2),
    },
    {
      name: "with style=all_docs contains all leaves",
      differs: "CouchDB counts skipped rows as pending",
      ask: "GET /films/_changes?style=all_docs&filter=_doc_ids&doc_ids=[%22b%22]",
      ...feed([{ ...b, changes: [{ rev: "1-c" }, { rev: "1-b" }] }]),
    },
    {
      name: "contains documents and their conflicts",
      ask: "GET /films/_changes?include_docs=true&conflicts=true&limit=3",
      ...feed(
        [
          { ...a, doc: { _id: "a", _rev: "1-a", n: 1 } },
          { ...b, doc: { _id: "b", _rev: "1-c", n: 3, _conflicts: ["1-b"] } },
          { ...gone, doc: { _id: "gone", _rev: "2-e", _deleted: true } },
        ],
        1,
      ),
    },
    {
      name: "reports every second sequence",
      ask: "GET /films/_changes?seq_interval=2&limit=2",
      ...feed([a, { ...b, seq: null }], 2),
    },
    {
      name: "is filtered by ids",
      differs: "CouchDB counts skipped rows as pending",
      ask: "POST /films/_changes?filter=_doc_ids",
      body: { doc_ids: ["gone", "a", "nope"] },
      ...feed([a, gone]),
    },
    {
      name: "is filtered by a selector",
      ask: "POST /films/_changes?filter=_selector&limit=1",
      body: { selector: { n: { $gt: 2 } } },
      ...feed([b], 2),
    },
    {
      name: "returns the requested fields of documents that match a selector",
      ask: "POST /films/_changes?filter=_selector&include_docs=true&limit=1",
      body: { selector: { n: { $gt: 2 } }, fields: ["n", "nope"] },
      ...feed([{ ...b, doc: { n: 3 } }], 2),
    },
    {
      name: "returns whole documents without a list of fields",
      ask: "POST /films/_changes?filter=_selector&include_docs=true&limit=1",
      body: { selector: { n: { $gt: 2 } }, fields: [] },
      ...feed([{ ...b, doc: { _id: "b", _rev: "1-c", n: 3 } }], 2),
    },
    {
      name: "refuses fields that are not a list",
      ask: "POST /films/_changes?filter=_selector",
      body: { selector: {}, fields: "n" },
      ...refusal(400, "bad_request", "Selector error: fields must be JSON array"),
    },
    {
      name: "is filtered to design documents",
      differs: "CouchDB counts skipped rows as pending",
      ask: "GET /films/_changes?filter=_design",
      ...feed([design]),
    },
    {
      name: "accepts a sequence in JSON form",
      onlyHere: "The sequence is from Tandem",
      ask: "GET /films/_changes?since=%220%22&limit=1",
      ...feed([a], 3),
    },
    {
      name: "refuses a sequence of another server",
      ask: "GET /films/_changes?since=12-abc",
      ...refusal(400, "bad_request", "Malformed sequence supplied in 'since' parameter."),
    },
    {
      name: "refuses an empty sequence",
      ask: "GET /films/_changes?since=",
      ...refusal(400, "bad_request", "Malformed sequence supplied in 'since' parameter."),
    },
    {
      name: "ignores the last event id of another feed",
      ask: "GET /films/_changes?limit=0",
      headers: { "Last-Event-ID": "nope" },
      status: 200,
      has: { results: [] },
    },
    {
      name: "refuses the last event id of another server",
      ask: "GET /films/_changes?feed=eventsource&timeout=1",
      headers: { "Last-Event-ID": "nope" },
      ...refusal(400, "bad_request", "Malformed sequence supplied in 'since' parameter."),
    },
    {
      name: "refuses an invalid limit",
      differs: "CouchDB fails with badarg",
      ask: "GET /films/_changes?limit=x",
      ...refusal(400, "query_parse_error", "limit must be an integer"),
    },
    {
      name: "refuses an invalid timeout",
      differs: "CouchDB fails with badarg",
      ask: "GET /films/_changes?timeout=x",
      ...refusal(400, "query_parse_error", "timeout must be an integer"),
    },
    {
      name: "refuses a negative heartbeat",
      ask: "GET /films/_changes?heartbeat=-1000",
      ...refusal(
        400,
        "bad_request",
        "The heartbeat value should be a positive integer (in milliseconds).",
      ),
    },
    {
      name: "refuses a heartbeat that is not a number",
      ask: "GET /films/_changes?heartbeat=a1000",
      ...refusal(
        400,
        "bad_request",
        "Invalid heartbeat value. Expecting a positive integer value (in milliseconds).",
      ),
    },
    {
      name: "refuses a heartbeat of zero",
      ask: "GET /films/_changes?heartbeat=0",
      ...refusal(
        400,
        "bad_request",
        "The heartbeat value should be a positive integer (in milliseconds).",
      ),
    },
    {
      name: "refuses an invalid style",
      differs: "CouchDB fails with badarg",
      ask: "GET /films/_changes?style=nosuch",
      ...refusal(400, "bad_request", "style must be main_only or all_docs"),
    },
    {
      name: "refuses an unknown feed",
      ask: "GET /films/_changes?feed=x",
      ...refusal(
        400,
        "bad_request",
        "Supported `feed` types: normal, continuous, live, longpoll, eventsource",
      ),
    },
    {
      name: "refuses ids that are not a list",
      ask: "POST /films/_changes?filter=_doc_ids",
      body: { doc_ids: "a" },
      ...refusal(400, "bad_request", "`doc_ids` filter parameter is not a list of doc ids."),
    },
    {
      name: "refuses the selector filter without a selector",
      ask: "POST /films/_changes?filter=_selector",
      body: {},
      ...refusal(400, "bad_request", "Selector error: expected a JSON object"),
    },
    {
      name: "refuses a selector with an unknown operator",
      ask: "POST /films/_changes?filter=_selector",
      body: { selector: { n: { $nosuch: 1 } } },
      ...refusal(400, "bad_request", "Invalid operator: $nosuch"),
    },
    {
      name: "refuses a truncated body",
      ask: "POST /films/_changes?filter=_selector",
      body: '{"selector"',
      ...refusal(400, "bad_request", "invalid UTF-8 JSON"),
    },
    {
      name: "is refused if the database is missing",
      ask: "GET /nope/_changes",
      ...refusal(404, "not_found", "Database does not exist."),
    },
  ]);

  test("continues after the given sequence, and is empty with since=now", async () => {
    const { ask } = await openChanges(openFilms);
    const first = (await ask("GET /films/_changes?limit=2")).json;
    const rest = (await ask(`GET /films/_changes?since=${first.last_seq}`)).json;
    expect(rest.results).toEqual([gone, design]);
    const now = (await ask("GET /films/_changes?since=now")).json;
    expect(now).toEqual({ results: [], last_seq: rest.last_seq, pending: 0 });
    expect((await ask("GET /films")).json.update_seq).toBe(rest.last_seq);
    const headers = { "Last-Event-ID": first.last_seq };
    const events = await ask("GET /films/_changes?feed=eventsource&since=0&limit=2", { headers });
    expect(events.text.match(/"id":"[^"]+"/g)).toEqual(['"id":"gone"', '"id":"_design/x"']);
  });

  test("is empty if the database is empty", async () => {
    const { ask } = await openFilms();
    expect((await ask("GET /films/_changes")).json).toEqual({
      results: [],
      last_seq: "0",
      pending: 0,
    });
  });

  test("reads all its changes in many pages, with a filter and in descending order", async () => {
    const { ask } = await openFilms();
    const docs = Array.from({ length: 2_300 }, (_, n) => ({ _id: `d${n}`, n }));
    await ask("POST /films/_bulk_docs", { body: { docs } });
    const ids = docs.map(({ _id }) => _id);
    const idsOf = async (query: string): Promise<string[]> => {
      const { results } = (await ask(`GET /films/_changes?${query}`)).json;
      return results.map(({ id }: { id: string }) => id);
    };
    expect(await idsOf("")).toEqual(ids);
    expect(await idsOf("descending=true")).toEqual([...ids].reverse());
    expect(await idsOf('filter=_selector&selector={"n":{"$gte":2200}}')).toEqual(ids.slice(2_200));
  });
});

describe("a descending feed", () => {
  test("begins with the newest change, whatever the value of since", async () => {
    const { ask } = await openChanges(openFilms);
    const { results, last_seq } = (await ask("GET /films/_changes?descending=true")).json;
    expect(results.map(({ id }: { id: string }) => id)).toEqual(["_design/x", "gone", "b", "a"]);
    for (const since of ["now", results[1].seq, last_seq]) {
      const { json } = await ask(`GET /films/_changes?descending=true&since=${since}`);
      expect(json).toEqual({ results, last_seq, pending: 0 });
    }
  });

  test("counts the changes older than the returned changes as pending", async () => {
    const { ask } = await openChanges(openFilms);
    for (const [limit, pending] of [4, 3, 2, 1, 0].entries()) {
      const { json } = await ask(`GET /films/_changes?descending=true&limit=${limit}`);
      expect([limit, json.pending]).toEqual([limit, pending]);
    }
    await ask("PUT /films/_design/x?rev=1-x", { body: {} });
    expect((await ask("GET /films/_changes?descending=true&limit=1")).json.pending).toBe(3);
  });
});

describe("a feed filtered by a few document ids", () => {
  test("returns the same rows whether it reads the documents directly or scans all changes", async () => {
    const { ask } = await openChanges(openFilms);
    const docs = Array.from({ length: 300 }, (_, n) => ({ _id: `d${n}`, n }));
    await ask("POST /films/_bulk_docs", { body: { docs } });
    await ask("PUT /films/d7?new_edits=false", { body: { _rev: "2-e" } });
    const all = (await ask("GET /films/_changes")).json;
    const places = [3, 100, 250].map((at) => all.results[at].seq);
    const known = ["d250", "nope", "d7", "b", "gone", "d7", "_design/x", "d99"];
    const unknown = Array.from({ length: 100 }, (_, n) => `unknown${n}`);
    const queries = ["", "descending=true", "style=all_docs&include_docs=true"].flatMap((query) => [
      query,
      `${query}&limit=2`,
      ...places.map((since) => `${query}&limit=3&since=${since}`),
      `${query}&since=now`,
      `${query}&feed=longpoll`,
    ]);
    for (const query of queries) {
      const asked = `POST /films/_changes?filter=_doc_ids&${query}`;
      const checked = await ask(asked, { body: { doc_ids: known } });
      const found = await ask(asked, { body: { doc_ids: [...known, ...unknown] } });
      expect(checked.json, query).toEqual(found.json);
    }
    const { results } = (
      await ask("POST /films/_changes?filter=_doc_ids", { body: { doc_ids: known } })
    ).json;
    const ids = results.map(({ id }: { id: string }) => id);
    expect(ids).toEqual(["b", "gone", "_design/x", "d99", "d250", "d7"]);
    for (const limit of [1, 2, 5]) {
      const path = `POST /films/_changes?filter=_doc_ids&limit=${limit}`;
      const page = (await ask(path, { body: { doc_ids: known } })).json;
      expect(page.last_seq).toBe(page.results[limit - 1].seq);
    }
    const none = { doc_ids: ["nope"] };
    expect((await ask("POST /films/_changes?filter=_doc_ids", { body: none })).json).toEqual({
      results: [],
      last_seq: all.last_seq,
      pending: 0,
    });
  });

  test("reads its changes in pages if it includes documents", async () => {
    const { ask } = await openFilms();
    const docs = Array.from({ length: 90 }, (_, n) => ({
      _id: `d${n}`,
      text: "x".repeat(100_000),
    }));
    await ask("POST /films/_bulk_docs", { body: { docs } });
    for (const descending of [false, true]) {
      const answer = await ask(
        `POST /films/_changes?filter=_doc_ids&include_docs=true&descending=${descending}`,
        { body: { doc_ids: docs.map(({ _id }) => _id) } },
      );
      const ids = answer.json.results.map(({ doc }: { doc: { _id: string } }) => doc._id);
      expect(ids).toEqual(docs.map(({ _id }) => _id).sort(byNumber(descending)));
    }
  });
});

function byNumber(descending: boolean) {
  return (left: string, right: string) =>
    (Number(left.slice(1)) - Number(right.slice(1))) * (descending ? -1 : 1);
}

describe("a longpoll feed", () => {
  test("responds immediately if changes exist", async () => {
    const { ask } = await openChanges(openFilms);
    expect((await ask("GET /films/_changes?feed=longpoll&limit=1")).json.results).toEqual([a]);
  });

  test("waits for the first change", async () => {
    const { ask, stream } = await openChanges(openFilms);
    const pieces = await stream("GET /films/_changes?feed=longpoll&since=now");
    expect((await pieces.next()).value).toBe('{"results":[\n');
    const next = pieces.next();
    await ask("PUT /films/new", { body: {} });
    expect(JSON.parse((await next).value)).toMatchObject({ id: "new" });
    expect((await pieces.next()).value).toMatch(/^\n\],\n"last_seq":"[0-9a-f-]+","pending":0\}\n$/);
    expect((await pieces.next()).done).toBe(true);
  });

  test("waits for a change that passes the filter", async () => {
    const { ask, stream } = await openChanges(openFilms);
    const pieces = await stream(
      "GET /films/_changes?feed=longpoll&since=now&filter=_doc_ids&doc_ids=[%22yes%22]",
    );
    await pieces.next();
    const next = pieces.next();
    await ask("PUT /films/no", { body: {} });
    await ask("PUT /films/yes", { body: {} });
    expect(JSON.parse((await next).value)).toMatchObject({ id: "yes" });
  });

  test("ends when its timeout elapses", async () => {
    const { ask } = await openChanges(openFilms);
    const answer = await ask("GET /films/_changes?feed=longpoll&since=now&timeout=1");
    expect(answer.json).toEqual({ results: [], last_seq: seq, pending: 0 });
  });
});

describe("a continuous feed", () => {
  test("writes a line for each change as it occurs", async () => {
    const { ask, stream } = await openChanges(openFilms);
    const leaving = new AbortController();
    const pieces = await stream("GET /films/_changes?feed=continuous", { signal: leaving.signal });
    expect((await pieces.next()).value).toBe("");
    const lines = ((await pieces.next()).value as string).trimEnd().split("\n");
    expect(lines.map((line) => JSON.parse(line))).toEqual([a, b, gone, design]);
    for (const id of ["one", "two"]) {
      const next = pieces.next();
      await ask(`PUT /films/${id}`, { body: {} });
      expect(JSON.parse((await next).value)).toMatchObject({ id });
    }
    const last = pieces.next();
    leaving.abort(new Error("The client has disconnected"));
    expect(JSON.parse((await last).value)).toMatchObject({ last_seq: seq });
    expect((await pieces.next()).done).toBe(true);
  });

  test("writes a document with line breaks on one line", async () => {
    const { ask } = await openFilms();
    await ask("PUT /films/a", { body: '{\n"n":\r\n1.0}' });
    const query = "feed=continuous&include_docs=true&timeout=1";
    const lines = (await ask(`GET /films/_changes?${query}`)).text.trimEnd().split("\n");
    expect(lines).toHaveLength(2);
    expect(lines[0]).toContain('"n": 1.0');
  });

  test("sends heartbeats while nothing changes", async () => {
    const { stream } = await openFilms();
    const leaving = new AbortController();
    const pieces = await stream("GET /films/_changes?feed=continuous&heartbeat=1", {
      signal: leaving.signal,
    });
    expect((await pieces.next()).value).toBe("");
    expect((await pieces.next()).value).toBe("\n");
    expect((await pieces.next()).value).toBe("\n");
    leaving.abort(new Error("The client has disconnected"));
    await pieces.return?.();
  });

  test("ends when it reaches its limit, or when its timeout elapses", async () => {
    const { ask } = await openChanges(openFilms);
    for (const query of ["limit=2", "timeout=1"]) {
      const { text } = await ask(`GET /films/_changes?feed=continuous&${query}`);
      expect(JSON.parse(text.trimEnd().split("\n").at(-1) as string)).toMatchObject({
        last_seq: seq,
      });
    }
  });

  test.each(["DELETE /films", "again"])("ends when its database is deleted: %s", async (how) => {
    const { ask, stream } = await openChanges(openFilms);
    const pieces = await stream("GET /films/_changes?feed=continuous&since=now");
    await pieces.next();
    const next = pieces.next();
    await ask("DELETE /films");
    if (how === "again") await ask("PUT /films");
    expect(JSON.parse((await next).value)).toMatchObject({ last_seq: seq });
    expect((await pieces.next()).done).toBe(true);
  });
});

test("an eventsource feed sends each change as an event", async () => {
  const { ask } = await openChanges(openFilms);
  const answer = await ask("GET /films/_changes?feed=eventsource&limit=1");
  expect(answer.headers["Content-Type"]).toBe("text/event-stream");
  expect(answer.text).toMatch(/^data: \{"seq":"([0-9a-f-]+)","id":"a",.*\}\nid: \1\n\n$/);
});
