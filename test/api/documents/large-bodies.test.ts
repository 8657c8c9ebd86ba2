/**
 * Bodies that could block the event loop. Bodies above a limit are refused; the others are
 * processed in steps.
 */
import { gzipSync } from "node:zlib";
import { beforeEach, describe, expect, test } from "vitest";
import type { Clock } from "../../../src/base/index.ts";
import { createSystemRuntime } from "../../../src/host/index.ts";
import { type OpenApi, openApi } from "../api.fixture.ts";

let api: OpenApi;
/** Number of yields to the event loop. */
let turnCount: number;

/**
 * Returns a clock that advances one millisecond per reading, so that each reading counts as a step
 * of work.
 */
function steppingClock(clock: Clock): Clock {
  let ms = 0;
  return {
    nowMs: () => clock.nowMs(),
    monotonicMs: () => ms++,
    sleep: (durationMs, signal) => {
      if (durationMs === 0) turnCount++;
      return clock.sleep(durationMs, signal);
    },
  };
}

beforeEach(async () => {
  const runtime = createSystemRuntime();
  api = await openApi({ parts: { runtime: { ...runtime, clock: steppingClock(runtime.clock) } } });
  await api.ask("PUT /films");
  turnCount = 0;
});

const list = (count: number, text: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => text(index)).join(",");
const TOO_LARGE = { status: 413, json: { error: "too_large" } };
const headers = { "Content-Type": "application/json" };

describe("refuses", () => {
  test.each([
    ["_all_docs", (count: number) => `{"keys":[${list(count - 2, (at) => `"${at}"`)}]}`],
    [
      "_changes?filter=_doc_ids",
      (count: number) => `{"doc_ids":[${list(count - 2, () => '"a"')}]}`,
    ],
    ["_revs_diff", (count: number) => `{"a":[${list(count - 2, (at) => `"1-${at}"`)}]}`],
    ["_bulk_get", (count: number) => `{"docs":[${list((count - 2) / 2, () => '{"id":"a"}')}]}`],
    ["_purge", (count: number) => `{"a":[${list(count - 2, () => '"1-a"')}]}`],
  ])("a request with more JSON values than the limit, at %s", async (place, bodyOf) => {
    const few = { body: bodyOf(100), headers };
    expect((await api.ask(`POST /films/${place}`, few)).status).toBeLessThan(300);
    const many = { body: bodyOf(100_002), headers };
    expect(await api.ask(`POST /films/${place}`, many)).toMatchObject(TOO_LARGE);
  });

  test("a compressed list of millions of documents before parsing its documents", async () => {
    const body = gzipSync(`{"docs":[${"{},".repeat(2_100_000)}{}]}`);
    const gzipped = { ...headers, "Content-Encoding": "gzip" };
    const answer = await api.ask("POST /films/_bulk_docs", { body, headers: gzipped });
    expect(answer).toMatchObject(TOO_LARGE);
    expect(answer.json.reason).toContain("2000000 values");
  });

  test("a request of more than eight megabytes", async () => {
    const body = JSON.stringify({ selector: { a: "x".repeat(8 * 1024 * 1024) } });
    expect(await api.ask("POST /films/_find", { body, headers })).toMatchObject(TOO_LARGE);
  });

  test("a security object over one megabyte, because every request by a user reads it", async () => {
    const bodyOf = (length: number) => `{"admins":{"names":["${"x".repeat(length)}"]}}`;
    const spare = bodyOf(0).length;
    const put = (length: number) =>
      api.ask("PUT /films/_security", { body: bodyOf(length - spare), headers });
    expect((await put(1024 * 1024)).status).toBe(200);
    expect(await put(1024 * 1024 + 1)).toMatchObject(TOO_LARGE);
  });

  test.each([
    ["conditions", { $or: Array.from({ length: 1_001 }, (_, at) => ({ a: at })) }],
    ["lists", { a: { $in: Array.from({ length: 10_001 }, (_, at) => at) } }],
    ["nested", JSON.parse(`${'{"$not":'.repeat(101)}{"a":1}${"}".repeat(101)}`)],
  ])("a selector that exceeds a limit: %s", async (word, selector) => {
    for (const [place, error] of [
      ["_find", "bad_request"],
      ["_explain", "bad_request"],
      ["_changes?filter=_selector", "bad_request"],
    ]) {
      const answer = await api.ask(`POST /films/${place}`, { body: { selector }, headers });
      expect(answer).toMatchObject({ status: 400, json: { error } });
      expect(answer.json.reason).toContain(word);
    }
  });

  test("excessively nested JSON before parsing the rest", async () => {
    for (const request of ["POST /films", "POST /films/_find", "POST /films/_bulk_docs"]) {
      const answer = await api.ask(request, { body: "[".repeat(5_000_000), headers });
      expect(answer).toMatchObject({
        status: 400,
        json: { error: "bad_request", reason: "The JSON is nested too deeply" },
      });
    }
    expect(turnCount).toBe(0);
  });

  test("a request with too many queries, and a purge of too many documents", async () => {
    const queries = `{"queries":[${list(1_001, () => "{}")}]}`;
    const asked = await api.ask("POST /films/_all_docs/queries", { body: queries, headers });
    expect(asked).toMatchObject(TOO_LARGE);
    expect(asked.json.reason).toContain("at most 1000 queries");
    const purged = `{${list(1_001, (at) => `"${at}":["1-a"]`)}}`;
    expect(await api.ask("POST /films/_purge", { body: purged, headers })).toMatchObject({
      status: 400,
      json: { error: "bad_request", reason: expect.stringContaining("at most 1000") },
    });
  });

  test("too many revisions of one document in _revs_diff or _missing_revs", async () => {
    for (const place of ["_revs_diff", "_missing_revs"]) {
      const bodyOf = (count: number) => `{"a":[${list(count, (at) => `"1-${at}"`)}]}`;
      const few = { body: bodyOf(10_000), headers };
      expect((await api.ask(`POST /films/${place}`, few)).status).toBe(200);
      const many = { body: bodyOf(10_001), headers };
      expect(await api.ask(`POST /films/${place}`, many)).toMatchObject(TOO_LARGE);
    }
  });

  test.each([
    [
      "views",
      (count: number) =>
        `"language":"query","views":{${list(count, (at) => `"${at}":{"map":{}}`)}}`,
    ],
    ["filters", (count: number) => `"filters":{${list(count, (at) => `"${at}":""`)}}`],
  ])("a design document with too many functions: %s", async (group, membersOf) => {
    const put = (count: number) =>
      api.ask("PUT /films/_design/a", { body: `{${membersOf(count)}}`, headers });
    expect(await put(10_001)).toMatchObject({
      status: 400,
      json: {
        error: "invalid_design_doc",
        reason: `\`${group}\` field has more than 10000 members`,
      },
    });
    expect((await put(10_000)).status).toBe(201);
  });

  test("a document with more values than the store accepts, before parsing the rest of the document", async () => {
    const body = `[${"1,".repeat(5_300_000)}, and what is no JSON`;
    expect(await api.ask("PUT /films/a", { body, headers })).toMatchObject(TOO_LARGE);
  });

  test("a list of more documents than a request may contain", async () => {
    const body = `{"docs":[${list(100_001, () => "{}")}]}`;
    expect(await api.ask("POST /films/_bulk_docs", { body, headers })).toMatchObject(TOO_LARGE);
  });
});

describe("yields to other requests while", () => {
  test.each([
    ["values", `{"a":[${list(1_500_000, () => "1")}]}`],
    ["text", `{"a":"${"x".repeat(3_000_000)}"}`],
  ])("scanning a long document: %s", async (_, body) => {
    expect((await api.ask("POST /films", { body, headers })).status).toBe(201);
    expect(turnCount).toBeGreaterThan(0);
  });

  test.each([
    ["text", `{"a":"${"x".repeat(3_000_000)}"}`],
    ["filters", `{"filters":{${list(9_000, (at) => `"${at}":""`)}}}`],
    ["views", `{"language":"query","views":{${list(9_000, (at) => `"${at}":{"map":{}}`)}}}`],
  ])(
    "scanning a design document, which takes more steps than scanning another document: %s",
    async (_, body) => {
      await api.ask("PUT /films/a", { body, headers });
      const turnCountOfOthers = turnCount;
      turnCount = 0;
      expect((await api.ask("PUT /films/_design/a", { body, headers })).status).toBe(201);
      expect(turnCount).toBeGreaterThan(turnCountOfOthers);
    },
  );

  test("scanning a long design document for filters and metadata", async () => {
    const code = { filters: { all: "function () { return true; }" } };
    const long = `${JSON.stringify(code).slice(0, -1)},"a":"${"x".repeat(3_000_000)}"}`;
    await api.ask("PUT /films/_design/a", { body: long, headers });
    turnCount = 0;
    expect((await api.ask("PUT /films/b", { body: {} })).status).toBe(201);
    expect(turnCount).toBeGreaterThan(0);
    turnCount = 0;
    expect((await api.ask("GET /films/_changes?filter=a/all")).json.results).toHaveLength(2);
    expect(turnCount).toBeGreaterThan(0);
  });

  test.each([
    ["_revs_diff", `{${list(33_000, (at) => `"${at}":["1-a"]`)}}`],
    ["_bulk_docs", `{"docs":[${list(2_000, (at) => `{"_id":"${at}"}`)}]}`],
    ["_all_docs/queries", `{"queries":[${list(1_000, () => '{"limit":0}')}]}`],
    ["_all_docs", `{"keys":[${list(2_000, (at) => `"${at}"`)}]}`],
    ["_bulk_get", `{"docs":[${list(2_000, (at) => `{"id":"${at}"}`)}]}`],
    ["_purge", `{${list(1_000, (at) => `"${at}":["1-a"]`)}}`],
    ["_changes?filter=_doc_ids", `{"doc_ids":[${list(20_000, (at) => `"${at}"`)}]}`],
  ])("%s iterates over a long list", async (place, body) => {
    expect((await api.ask(`POST /films/${place}`, { body, headers })).status).toBeLessThan(300);
    expect(turnCount).toBeGreaterThan(0);
  });

  test("_find scans documents that do not match", async () => {
    const docs = Array.from({ length: 100 }, () => ({}));
    await api.ask("POST /films/_bulk_docs", { body: { docs } });
    turnCount = 0;
    const body = { selector: { a: 1 } };
    expect((await api.ask("POST /films/_find", { body })).json.docs).toEqual([]);
    expect(turnCount).toBeGreaterThan(0);
  });
});

describe("a _bulk_docs request with more documents than are parsed without yielding", () => {
  const many = (count: number) => Array.from({ length: count }, (_, at) => ({ _id: `d${at}` }));
  const write = (docs: readonly object[], mode: object = {}) =>
    api.ask("POST /films/_bulk_docs", { body: { docs, ...mode } });

  test("returns a row for each document, in the order of the request", async () => {
    const docs = [...many(2_100), { _id: "d1" }];
    const { status, json } = await write(docs);
    expect(status).toBe(201);
    expect(json.map(({ id }: { id: string }) => id)).toEqual(docs.map(({ _id }) => _id));
    expect(json.at(-1)).toMatchObject({ error: "conflict" });
    expect((await api.ask("GET /films")).json.doc_count).toBe(2_100);
  });

  test.each([
    ["an id", { _id: "_x" }],
    ["a member", { _id: "x", _x: 1 }],
    ["an attachment", { _id: "x", _attachments: { a: { data: "!" } } }],
  ])("writes no document if one of the documents is malformed: %s", async (_, bad) => {
    expect((await write([...many(1_100), bad])).status).toBe(400);
    expect((await api.ask("GET /films")).json.doc_count).toBe(0);
  });

  test("with new_edits=false, writes the valid documents and reports the invalid one", async () => {
    const docs = many(1_100).map((document) => ({ ...document, _rev: "1-a" }));
    const { status, json } = await write([...docs, { _id: "_x", _rev: "1-a" }], {
      new_edits: false,
    });
    expect(status).toBe(201);
    expect(json).toMatchObject([{ id: "_x" }]);
    expect((await api.ask("GET /films")).json.doc_count).toBe(1_100);
    const refused = await write([...docs, 5 as unknown as object], { new_edits: false });
    expect(refused.status).toBe(400);
  });
});

describe("a document", () => {
  const hash = (at: number) => String(at).padStart(32, "0");
  const write = (docs: readonly object[]) =>
    api.ask("POST /films/_bulk_docs", { body: { new_edits: false, docs } });

  test("may have at most a thousand leaves, and existing leaves can still be extended", async () => {
    const leaves = Array.from({ length: 1_001 }, (_, at) => ({ _id: "a", _rev: `1-${hash(at)}` }));
    const { json } = await write(leaves);
    const reason = "A document must not have more than 1000 conflicting revisions";
    const error = "document_too_large";
    expect(json).toEqual([{ id: "a", rev: `1-${hash(1_000)}`, error, reason }]);
    // Writing many leaves yields often, because each leaf rewrites the whole revision tree.
    expect(turnCount).toBeGreaterThan(50);
    const next = { _id: "a", _revisions: { start: 2, ids: ["b", hash(7)] } };
    expect((await write([next])).json).toEqual([]);
    const alone = { body: { _rev: "1-c" } };
    expect(await api.ask("PUT /films/a?new_edits=false", alone)).toMatchObject({
      status: 413,
      json: { error, reason },
    });
  });

  test("may have at most two thousand attachments", async () => {
    const names = Array.from({ length: 2_001 }, (_, at) => [String(at), { data: "" }]);
    const body = { _attachments: Object.fromEntries(names) };
    const error = "document_too_large";
    expect(await api.ask("PUT /films/a", { body })).toMatchObject({ status: 413, json: { error } });
  });

  test("may have attachments whose names, with the document id, have two million bytes, and can be purged", async () => {
    const id = "i".repeat(6_990);
    const bodyOf = (count: number) => {
      const names = Array.from({ length: count }, (_, at) => [`${at}`, { data: "" }]);
      return { _attachments: Object.fromEntries(names) };
    };
    for (let at = 0; at < 64; at++) {
      await api.ask("POST /films/_index", {
        body: { index: { fields: [`f${at}`] }, ddoc: `${at}` },
      });
    }
    const fields = Array.from({ length: 64 }, (_, at) => [`f${at}`, "x".repeat(1_000)]);
    const indexed = (count: number) => ({ ...Object.fromEntries(fields), ...bodyOf(count) });
    const refused = await api.ask(`PUT /films/${id}`, { body: indexed(287) });
    expect(refused).toMatchObject({ status: 413, json: { error: "document_too_large" } });
    const { status, json } = await api.ask(`PUT /films/${id}`, { body: indexed(285) });
    expect(status).toBe(201);
    const purged = await api.ask("POST /films/_purge", { body: { [id]: [json.rev] } });
    expect(purged.json.purged).toEqual({ [id]: [json.rev] });
  });
});

describe("documents that together exceed a page are all sent, in order, by", () => {
  const IDS = ["a", "b", "c", "d", "e"];
  const json = { "Content-Type": "application/json" };

  beforeEach(async () => {
    for (const id of IDS) {
      const body = { n: 1, text: "x".repeat(2_500_000) };
      expect((await api.ask(`PUT /films/${id}`, { body })).status).toBe(201);
    }
  });

  test.each([
    ["GET /films/_all_docs?include_docs=true", undefined, IDS],
    ["GET /films/_all_docs?include_docs=true&descending=true&skip=1&limit=3", undefined, "dcb"],
    ["GET /films/_changes?include_docs=true", undefined, IDS],
    ["GET /films/_changes?include_docs=true&descending=true", undefined, "edcba"],
    ["POST /films/_changes?filter=_selector&style=all_docs", { selector: { n: 1 } }, IDS],
    ["POST /films/_all_docs?include_docs=true", { keys: ["e", 7, "a", "a", "none", "b"] }, "eaab"],
  ])("%s", async (request, body, ids) => {
    const { json: answer } = await api.ask(
      request,
      body === undefined ? {} : { body, headers: json },
    );
    const rows: { id?: string; error?: string }[] = answer.rows ?? answer.results;
    const found = rows.filter(({ error }) => error === undefined).map(({ id }) => id);
    expect(found).toEqual([...ids]);
  });

  test("_bulk_get", async () => {
    const docs = ["c", "none", "a", "a", "e"].map((id) => ({ id }));
    const { json: answer } = await api.ask("POST /films/_bulk_get", { body: { docs } });
    const results: { id: string; docs: { ok?: object }[] }[] = answer.results;
    expect(results.map(({ id, docs: [first] }) => [id, first?.ok !== undefined])).toEqual([
      ["c", true],
      ["none", false],
      ["a", true],
      ["a", true],
      ["e", true],
    ]);
  });

  test("_find, with and without an index", async () => {
    const query = { selector: { n: 1 }, limit: 10 };
    const found = async () =>
      (await api.ask("POST /films/_find", { body: query })).json.docs.map(
        ({ _id }: { _id: string }) => _id,
      );
    expect(await found()).toEqual(IDS);
    await api.ask("POST /films/_index", { body: { index: { fields: ["n"] } } });
    expect(await found()).toEqual(IDS);
  });

  test("open_revs", async () => {
    for (const hash of ["x", "y"]) {
      const body = { _id: "a", _rev: `1-${hash}`, text: "x".repeat(2_500_000) };
      await api.ask("POST /films/_bulk_docs", { body: { new_edits: false, docs: [body] } });
    }
    const asked = encodeURIComponent(JSON.stringify(["1-x", "1-none", "1-y"]));
    const { json: rows } = await api.ask(`GET /films/a?open_revs=${asked}`, {
      headers: { Accept: "application/json" },
    });
    expect(
      rows.map((row: { ok?: { _rev: string }; missing?: string }) => row.ok?._rev ?? row.missing),
    ).toEqual(["1-x", "1-none", "1-y"]);
  });
});
