/** Every request gets a response in CouchDB's format and never causes an internal error. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { openFilms } from "./api.fixture.ts";

const method = fc.constantFrom("GET", "HEAD", "PUT", "POST", "DELETE", "COPY", "PATCH");

const RESOURCES = [
  "_all_docs",
  "_design_docs",
  "_local_docs",
  "_bulk_docs",
  "_bulk_get",
  "_revs_diff",
  "_missing_revs",
  "_changes",
  "_security",
  "_revs_limit",
  "_ensure_full_commit",
  "_compact",
  "_find",
  "_explain",
  "_index",
  "_local/x",
  "_design/x",
  "_design/x/y",
  "a",
  "a/b",
  "a/b/c",
  "_a",
  "_local",
  "_design",
];
const SERVER_RESOURCES = [
  "",
  "_up",
  "_all_dbs",
  "_uuids",
  "_session",
  "_dbs_info",
  "_membership",
  "_x",
];

const segment = fc.oneof(
  fc.constantFrom(...RESOURCES),
  fc
    .string({ unit: "binary", minLength: 1, maxLength: 12 })
    .map((text) => encodeURIComponent(text.replace(/\p{Surrogate}/gu, "\ufffd"))),
  fc.constantFrom("%", "%zz", "%ff", "+", "..", "%00"),
);
const path = fc.oneof(
  { weight: 6, arbitrary: segment.map((text) => `/films/${text}`) },
  { weight: 2, arbitrary: fc.tuple(segment, segment).map((texts) => `/films/${texts.join("/")}`) },
  { weight: 1, arbitrary: fc.constantFrom(...SERVER_RESOURCES).map((text) => `/${text}`) },
  { weight: 1, arbitrary: segment.map((text) => `/${text}`) },
);

const NAMES = [
  "rev",
  "revs",
  "revs_info",
  "open_revs",
  "latest",
  "conflicts",
  "meta",
  "attachments",
  "atts_since",
  "att_encoding_info",
  "new_edits",
  "batch",
  "key",
  "keys",
  "startkey",
  "endkey",
  "startkey_docid",
  "inclusive_end",
  "limit",
  "skip",
  "descending",
  "include_docs",
  "update_seq",
  "since",
  "style",
  "filter",
  "doc_ids",
  "selector",
  "heartbeat",
  "seq_interval",
  "count",
];
const value = fc.oneof(
  fc.constantFrom(
    "true",
    "false",
    "",
    "0",
    "1",
    "-1",
    "now",
    "all",
    '"a"',
    '["1-a"]',
    "[1]",
    "{}",
    "null",
  ),
  fc.constantFrom(
    "1-a",
    '"',
    "all_docs",
    "_doc_ids",
    "_selector",
    "_design",
    "_view",
    "99999999999999999999",
  ),
  fc.string({ unit: "binary", maxLength: 8 }),
);
const query = fc.dictionary(fc.constantFrom(...NAMES), value, { maxKeys: 4 });

const HEADERS = {
  "content-type": [
    "application/json",
    "application/json",
    "application/json; charset=utf-8",
    "text/plain",
    "multipart/related; boundary=x",
    "multipart/related",
    "",
  ],
  "content-encoding": ["gzip", "identity", "br"],
  "content-length": ["0", "3", "x"],
  "content-md5": ["", "x"],
  accept: ["*/*", "multipart/mixed", "multipart/related", "application/json"],
  "accept-encoding": ["gzip", "*"],
  "if-match": ['"1-a"', "x", ""],
  "if-none-match": ["*", '"1-a"'],
  range: ["bytes=0-", "bytes=5-1", "bytes=-0", "x"],
  destination: ["b", "b?rev=1-a", "%ff", "_b", "http://x/"],
  "last-event-id": ["0", "x"],
};
const headers = fc.record(
  Object.fromEntries(
    Object.entries(HEADERS).map(([name, values]) => [name, fc.constantFrom(...values)]),
  ),
  { requiredKeys: ["content-type"] },
) as fc.Arbitrary<Record<string, string>>;

/** Objects that have the member names of documents but values of any type. */
const document = fc.dictionary(
  fc.constantFrom("_id", "_rev", "_deleted", "_revisions", "_attachments", "_x", "__proto__", "n"),
  fc.oneof(
    fc.jsonValue({ maxDepth: 2 }),
    fc.constantFrom<unknown>("a", "1-a", true, { start: 1, ids: ["a"] }, { start: 1, ids: [] }),
    fc.constantFrom<unknown>(
      { b: { data: "YWJj" } },
      { b: { stub: true } },
      { b: { follows: true } },
    ),
  ),
  { maxKeys: 4 },
);
const body = fc.oneof(
  fc.constantFrom("", "{", "null", "[]", "1", '"x"', "\ud800", "\ufeff{}"),
  document.map((members) => JSON.stringify(members)),
  fc.array(document, { maxLength: 3 }).map((docs) => JSON.stringify({ docs })),
  fc.array(document, { maxLength: 3 }).map((docs) => JSON.stringify({ docs, new_edits: false })),
  fc.jsonValue({ maxDepth: 3 }).map((json) => JSON.stringify(json)),
  fc.jsonValue({ maxDepth: 3 }).map((selector) => JSON.stringify({ selector })),
  document.map((members) => `--x\r\n\r\n${JSON.stringify(members)}\r\n--x\r\n\r\nabc\r\n--x--`),
  fc.uint8Array({ maxLength: 20 }),
);

test("every request gets a response", async () => {
  const { ask, events } = await openFilms();
  await fc.assert(
    fc.asyncProperty(
      method,
      path,
      query,
      headers,
      body,
      async (verb, target, asked, sent, text) => {
        const search = new URLSearchParams(asked).toString();
        const request = `${verb} ${target}?${search}`;
        // Feeds that wait are not requested. Their queries are parsed by the same code.
        const answer = await ask(request, { headers: sent, body: text });
        const defects = events.filter(({ name }) => name === "api.request-failed");
        expect(defects, request).toEqual([]);
        expect(answer.status).toBeGreaterThanOrEqual(200);
        expect(answer.status, request).not.toBe(500);
        if (verb === "DELETE") await ask("PUT /films");
        if (answer.status < 400 || verb === "HEAD") return;
        expect(answer.headers["Content-Type"]).toBe("application/json");
        expect(answer.json).toEqual({ error: expect.any(String), reason: expect.any(String) });
      },
    ),
    { numRuns: 1_500 },
  );
});
