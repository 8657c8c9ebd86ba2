/** Rarely used features of documents, lists and feeds. */
import { describe, expect } from "vitest";
import type { Asked } from "./api.fixture.ts";
import { refusal, type Scene, testRows } from "./rows.ts";

const DIGITS = { body: "0123456789", headers: { "Content-Type": "image/png" } };

/** Database `films` with a replicated document `a`, and a document `b` with an attachment. */
const openCorners: Scene = async (open) => {
  const films = await open();
  await films.ask("PUT /films/a?new_edits=false", { body: { _rev: "1-a" } });
  await films.ask("PUT /films/b/digits", DIGITS);
  return films;
};

const openTagged = (path: string): Scene => {
  return async (open) => {
    const films = await openCorners(open);
    const { ETag, etag = ETag } = (await films.ask(`GET ${path}`)).headers;
    return { ask: (request, options) => films.ask(request, withTag(etag as string, options)) };
  };
};

const withTag = (tag: string, options: Parameters<Asked["ask"]>[1] = {}) => ({
  ...options,
  headers: { "If-None-Match": tag, ...options.headers },
});

describe("the API does not send a document again if the client has its current version", () => {
  for (const path of [
    "/films/a",
    "/films/a?revs=true",
    "/films/a?conflicts=true",
    "/films/b/digits",
    "/films/_changes",
    "/films/_changes?include_docs=true&limit=1",
    "/films/_changes?filter=_design",
    "/_all_dbs?startkey=%22zz%22",
  ]) {
    testRows(openTagged(path), [{ name: path, ask: `GET ${path}`, status: 304 }]);
  }
  testRows(openTagged("/films/_changes"), [
    {
      name: "unless the database has changed",
      ask: "GET /films/_changes",
      headers: { "If-None-Match": '"x"' },
      status: 200,
    },
    {
      name: "unless the request waits for further changes",
      ask: "GET /films/_changes?feed=longpoll&limit=1",
      status: 200,
    },
    {
      name: "unless the request is a POST",
      differs: "CouchDB does not validate it",
      ask: "POST /films/_changes",
      body: {},
      status: 200,
    },
  ]);
  testRows(openCorners, [
    {
      name: "if a weak tag matches",
      ask: "GET /films/a",
      headers: { "If-None-Match": 'W/"1-a"' },
      status: 304,
    },
    {
      name: "if one of several tags matches",
      ask: "GET /films/a",
      headers: { "If-None-Match": '"x", "1-a"' },
      status: 304,
    },
    {
      name: "unless the tag is unquoted",
      ask: "GET /films/a",
      headers: { "If-None-Match": "1-a" },
      status: 200,
    },
    {
      name: "if the request accepts any tag",
      differs: "CouchDB ignores the star",
      ask: "GET /films/a",
      headers: { "If-None-Match": "*" },
      status: 304,
    },
  ]);
});

describe("a write with batch=ok", () => {
  testRows(openCorners, [
    {
      name: "is accepted",
      ask: "PUT /films/x?batch=ok",
      body: {},
      status: 202,
      json: { ok: true, id: "x" },
    },
    {
      name: "is accepted as a POST to the database",
      ask: "POST /films?batch=ok",
      body: { _id: "x" },
      status: 202,
      json: { ok: true, id: "x" },
    },
    {
      name: "is accepted but not written if it is a conflict",
      ask: "PUT /films/a?batch=ok",
      body: {},
      status: 202,
      json: { ok: true, id: "a" },
    },
    {
      name: "is refused if its body is malformed",
      ask: "PUT /films/x?batch=ok",
      body: { _x: 1 },
      ...refusal(400, "doc_validation", "Bad special document member: _x"),
    },
    {
      name: "with a value other than ok has no special effect",
      ask: "PUT /films/x?batch=no",
      body: {},
      status: 201,
    },
    {
      name: "has no special effect on a deletion",
      ask: "DELETE /films/a?batch=ok&rev=1-a",
      status: 200,
    },
    {
      name: "does not apply to attachments",
      ask: "PUT /films/x/digits?batch=ok",
      ...DIGITS,
      status: 201,
    },
    {
      name: "does not apply to bulk writes",
      ask: "POST /films/_bulk_docs?batch=ok",
      body: { docs: [{}] },
      status: 201,
    },
  ]);
});

describe("a range of an attachment", () => {
  const range = (value: string) => ({
    ask: "GET /films/b/digits",
    headers: { Range: value },
  });
  const unsatisfiable = refusal(
    416,
    "requested_range_not_satisfiable",
    "Requested range not satisfiable",
  );
  testRows(openCorners, [
    {
      name: "ends no later than the attachment",
      ...range("bytes=2-100"),
      status: 206,
      answers: { "Content-Range": "bytes 2-9/10", "Content-Length": "8" },
    },
    {
      name: "can consist of one byte",
      ...range("bytes=0-0"),
      status: 206,
      answers: { "Content-Range": "bytes 0-0/10" },
    },
    { name: "is refused if its end precedes its start", ...range("bytes=5-2"), ...unsatisfiable },
    { name: "is refused if it starts after the end", ...range("bytes=20-30"), ...unsatisfiable },
    { name: "is ignored if its unit is not bytes", ...range("items=0-3"), status: 200 },
    { name: "is ignored if its bounds are not numbers", ...range("bytes=a-b"), status: 200 },
    {
      name: "answers HEAD",
      ...range("bytes=0-3"),
      ask: "HEAD /films/b/digits",
      status: 206,
      answers: { "Content-Range": "bytes 0-3/10", "Content-Length": "4" },
    },
    {
      name: "is replaced by the whole attachment if the client has another version",
      differs: "CouchDB ignores If-Range",
      ask: "GET /films/b/digits",
      headers: { Range: "bytes=0-3", "If-Range": '"x"' },
      status: 200,
    },
    {
      name: "is sent if the client has the current version of the attachment",
      ask: "GET /films/b/digits",
      headers: { Range: "bytes=0-3", "If-Range": '"eB5eJF1ptWaXm4bijSPyxw=="' },
      status: 206,
    },
  ]);
});

describe("the seq_interval of a changes feed", () => {
  const invalid = refusal(400, "bad_request", "invalid_seq_interval");
  testRows(openCorners, [
    { name: "cannot be 0", ask: "GET /films/_changes?seq_interval=0", ...invalid },
    { name: "cannot be text", ask: "GET /films/_changes?seq_interval=x", ...invalid },
    { name: "cannot be negative", ask: "GET /films/_changes?seq_interval=-2", ...invalid },
    {
      name: "can exceed the number of changes in the feed",
      differs: "CouchDB counts sequences, not rows",
      ask: "GET /films/_changes?seq_interval=100",
      status: 200,
      has: { results: [{ seq: null }, { seq: null }], last_seq: expect.any(String) },
    },
  ]);
});

describe("an eventsource feed", () => {
  testRows(openCorners, [
    {
      name: "begins after the last event that the client has",
      onlyHere: "It sends more after it has closed the connection",
      ask: "GET /films/_changes?feed=eventsource&timeout=10",
      headers: { "Last-Event-ID": "now" },
      status: 200,
      answers: { "Content-Type": "text/event-stream" },
    },
  ]);
});

describe("an unusual name", () => {
  const odd = "%C3%A4%2F%20%2B+x%F0%9F%98%80";
  testRows(openCorners, [
    {
      name: "can be the id of a document",
      ask: `PUT /films/${odd}`,
      body: {},
      status: 201,
      has: { id: "ä/ + x😀" },
      answers: { Location: expect.stringMatching(/\/films\/%C3%A4%2F%20%2B%20x%F0%9F%98%80$/) },
    },
    {
      name: "can be the name of an attachment",
      ask: `PUT /films/x/${odd}`,
      ...DIGITS,
      status: 201,
      answers: { Location: expect.stringMatching(/\/films\/x\/%C3%A4%2F%20%2B%20x%F0%9F%98%80$/) },
    },
    {
      name: "can contain a null character",
      ask: "PUT /films/x%00y",
      body: {},
      status: 201,
      has: { id: "x\0y" },
    },
    { name: "can be a dot", ask: "PUT /films/.", body: {}, status: 201, has: { id: "." } },
    {
      name: "cannot be __proto__, because it begins with an underscore",
      ask: "PUT /films/__proto__",
      body: {},
      ...refusal(400, "illegal_docid", "Only reserved document ids may start with underscore."),
    },
    {
      name: "can be constructor, the name of a member of all objects",
      ask: "PUT /films/constructor",
      body: {},
      status: 201,
      has: { id: "constructor", rev: expect.any(String) },
    },
  ]);
});

describe("the offset of an _all_docs response", () => {
  testRows(openCorners, [
    { name: "is 0", ask: "GET /films/_all_docs?limit=0", status: 200, has: { offset: 0 } },
    {
      name: "counts skipped rows",
      ask: "GET /films/_all_docs?skip=1",
      status: 200,
      has: { offset: 1 },
    },
    {
      name: "is null for a list of keys",
      ask: 'GET /films/_all_docs?keys=["a"]',
      status: 200,
      has: { total_rows: 2, offset: null },
    },
    {
      name: "is null after a start key",
      differs: "CouchDB counts the rows before it",
      ask: 'GET /films/_all_docs?startkey="b"',
      status: 200,
      has: { total_rows: 2, offset: null },
    },
  ]);
});
