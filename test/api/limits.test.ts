/** Request bodies that are too large, too deeply nested, compressed, or unreadable. */
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { openApi, SETTINGS } from "./api.fixture.ts";
import { FILMS, refusal, testRows } from "./rows.ts";

const gzip = { "Content-Encoding": "gzip" };
const tooLarge = refusal(413, "too_large", "the request entity is too large");
const LAST_COUNTS = "CouchDB takes the last and is silent about the others";
const notJson = refusal(400, "bad_request", "invalid UTF-8 JSON");

describe("bodies", () => {
  testRows(FILMS, [
    {
      name: "a compressed document is decompressed",
      ask: "PUT /films/a",
      headers: gzip,
      body: gzipSync('{"n":1}'),
      status: 201,
      has: { ok: true, id: "a" },
    },
    {
      name: "a compressed list of documents is decompressed",
      ask: "POST /films/_bulk_docs",
      headers: gzip,
      body: gzipSync('{"docs":[{"_id":"a"},{"_id":"b"}]}'),
      status: 201,
      has: [{ id: "a" }, { id: "b" }],
    },
    {
      name: "a plain body with Content-Encoding: gzip is refused",
      ask: "PUT /films/a",
      headers: gzip,
      body: "{}",
      ...refusal(400, "bad_request", "Request body is not properly gzipped."),
    },
    {
      name: "a truncated compressed body is refused",
      ask: "PUT /films/a",
      headers: gzip,
      body: gzipSync('{"n":1}').subarray(0, -10),
      ...refusal(400, "bad_request", "Request body is not properly gzipped."),
    },
    {
      name: "an unsupported Content-Encoding is refused",
      ask: "PUT /films/a",
      headers: { "Content-Encoding": "br" },
      body: "{}",
      ...refusal(415, "bad_content_type", "br is not a supported content encoding."),
    },
    { name: "malformed JSON is refused", ask: "PUT /films/a", body: "{", ...notJson },
    { name: "an empty body is refused", ask: "PUT /films/a", body: "", ...notJson },
    {
      name: "a body that is not UTF-8 is refused",
      ask: "PUT /films/a",
      body: Uint8Array.of(0x22, 0xff, 0x22),
      ...notJson,
    },
    ...['{"a":"\\ud800"}', '{"a":"\\udc00\\ud800"}', '{"\\uD83D":1}', '{"a":"\\\\\\ud83dx"}'].map(
      (body) => ({
        name: `one with an unpaired surrogate is refused: ${body}`,
        ask: "PUT /films/a",
        body,
        ...notJson,
      }),
    ),
    ...['{"a":1e400}', '{"a":[-1.5E+309]}', `{"a":1${"0".repeat(309)}.0}`].map((body) => ({
      name: `one with a number that no double represents is refused: ${body.slice(0, 20)}`,
      ask: "PUT /films/a",
      body,
      ...notJson,
    })),
    {
      name: "an integer that exceeds the range of a double is refused",
      differs: "CouchDB fails",
      ask: "PUT /films/a",
      body: `{"a":1${"0".repeat(309)}}`,
      ...notJson,
    },
    ...['{"a":1e308}', '{"a":1e-400}', `{"a":1${"0".repeat(307)}}`].map((body) => ({
      name: `one with a valid number is accepted: ${body.slice(0, 20)}`,
      ask: "PUT /films/a",
      body,
      status: 201,
    })),
    ...['{"a":"\\ud83d\\ude00"}', '{"a":"\\\\ud800"}', '{"a":"\\u00e4\\uD83D\\uDE00"}'].map(
      (body) => ({
        name: `one with paired surrogates is accepted: ${body}`,
        ask: "PUT /films/a",
        body,
        status: 201,
      }),
    ),
    {
      name: "an array is refused as a document",
      ask: "PUT /films/a",
      body: "[]",
      ...refusal(400, "bad_request", "Document must be a JSON object"),
    },
    {
      name: "a deeply nested document is accepted",
      ask: "PUT /films/a",
      body: `{"a":${"[".repeat(5_000)}${"]".repeat(5_000)}}`,
      status: 201,
    },
    {
      name: "an excessively nested selector is refused",
      ask: "POST /films/_find",
      body: `{"selector":${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}}`,
      ...refusal(400, "bad_request", "The JSON is nested too deeply"),
      differs: "CouchDB evaluates it slowly",
    },
    {
      name: "a request with a duplicate member is refused",
      ask: "POST /films/_bulk_docs",
      body: '{"docs":1,"docs":[{"_id":"a"}]}',
      ...refusal(400, "bad_request", 'Duplicate member "docs" in one object'),
      differs: LAST_COUNTS,
    },
    {
      name: "a document with a duplicate member is refused",
      ask: "PUT /films/twice",
      body: '{"a":1,"b":{"c":1,"\\u0063":2}}',
      ...refusal(400, "bad_request", 'Duplicate member "c" in one object'),
      differs: LAST_COUNTS,
    },
    {
      name: "a posted document with a duplicate member is refused",
      ask: "POST /films",
      body: '{"_id":"twice","_id":"once"}',
      ...refusal(400, "bad_request", 'Duplicate member "_id" in one object'),
      differs: LAST_COUNTS,
    },
    {
      name: "a document in a list is refused if it has a duplicate member",
      ask: "POST /films/_bulk_docs",
      body: '{"docs":[{"_id":"before"},{"_id":"twice","a":1,"a":2}]}',
      ...refusal(400, "bad_request", 'Duplicate member "a" in one object'),
      differs: LAST_COUNTS,
    },
    {
      name: "a request that names a document twice is refused",
      ask: "POST /films/_revs_diff",
      body: '{"twice":["1-a"],"\\u0074wice":["2-a"]}',
      ...refusal(400, "bad_request", 'Duplicate member "twice" in one object'),
      differs: LAST_COUNTS,
    },
    {
      name: "a local document with a duplicate member is refused",
      ask: "PUT /films/_local/twice",
      body: '{"a":1,"a":2}',
      ...refusal(400, "bad_request", 'Duplicate member "a" in one object'),
      differs: LAST_COUNTS,
    },
    {
      name: "a replicated document with a duplicate member is accepted unchanged",
      ask: "POST /films/_bulk_docs",
      body: '{"new_edits":false,"docs":[{"_id":"foreign","_rev":"1-a","a":1,"a":2}]}',
      status: 201,
      has: [],
    },
  ]);
});

test("duplicate member names are preserved in a replicated document, and refused in an edit", async () => {
  const { ask } = await openApi();
  await ask("PUT /films");
  const stored = '"a":1,"a":{"b":1,"b":2}';
  await ask("PUT /films/foreign?new_edits=false", { body: `{"_rev":"1-a",${stored}}` });
  expect((await ask("GET /films/foreign")).text).toContain(stored);
  const docs = '{"docs":[{"_id":"before"},{"_id":"twice","a":1,"a":2}]}';
  expect((await ask("POST /films/_bulk_docs", { body: docs })).status).toBe(400);
  expect((await ask("GET /films/before")).status).toBe(404);
});

describe("limits", () => {
  const open = async (settings: object) => {
    const opened = await openApi({
      parts: { settings: { ...SETTINGS, ...settings } },
    });
    await opened.ask("PUT /films");
    return opened;
  };

  test("a document of the maximum size is accepted", async () => {
    const { ask } = await open({ documentBytesMax: 100 });
    const body = (length: number) => ({ text: "x".repeat(length) });
    expect((await ask("PUT /films/a", { body: body(80) })).status).toBe(201);
    expect(await ask("PUT /films/b", { body: body(200) })).toMatchObject(
      refusal(413, "document_too_large", "b"),
    );
    const docs = [{ _id: "c" }, { _id: "d", ...body(200) }];
    expect(await ask("POST /films/_bulk_docs", { body: { docs } })).toMatchObject(
      refusal(413, "document_too_large", "d"),
    );
  });

  test("a request of the maximum size is accepted, compressed or uncompressed", async () => {
    const { ask } = await open({ requestBytesMax: 1_000 });
    const text = JSON.stringify({ text: "x".repeat(5_000) });
    expect(await ask("PUT /films/a", { body: text })).toMatchObject(tooLarge);
    const body = gzipSync(text);
    expect(body.length).toBeLessThan(1_000);
    expect(await ask("PUT /films/a", { body, headers: gzip })).toMatchObject(tooLarge);
    const headers = { "Content-Length": "1001", "Content-Type": "text/plain" };
    expect(await ask("PUT /films/a/b", { body: "x", headers })).toMatchObject(tooLarge);
  });

  test("a node in maintenance mode reports that it is up and in this mode", async () => {
    const maintained = await open({ maintenanceMode: "true" });
    expect(await maintained.ask("GET /_up")).toMatchObject({
      status: 404,
      json: { status: "maintenance_mode" },
    });
    expect((await maintained.ask("GET /films")).status).toBe(200);
    const unbalanced = await open({ maintenanceMode: "nolb" });
    expect(await unbalanced.ask("GET /_up")).toMatchObject({
      status: 404,
      json: { status: "nolb" },
    });
  });
});
