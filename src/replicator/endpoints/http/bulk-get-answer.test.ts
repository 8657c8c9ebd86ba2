import { expect, test } from "vitest";
import { outlineJson } from "../../../base/index.ts";
import { BULK_GET, parseBulkGet } from "./bulk-get-answer.ts";

const DOC = '{"_id":"a","_rev":"1-a","n":1.0,"_revisions":{"start":1,"ids":["a"]}}';
const requests = (...ids: string[]) => ids.map((id) => ({ id, revision: "1-a", ancestors: [] }));
const parse = (text: string, ...ids: string[]) =>
  parseBulkGet(outlineJson(text, BULK_GET), requests(...ids));

test.each([
  ["as servers write it", `{"results":[{"id":"a","docs":[{"ok":${DOC}}]}]}`],
  ["with whitespace", `{ "results": [ {"id": "a", "docs": [ {"ok": ${DOC} } ] } ] }`],
  ["with other members", `{"x":1,"results":[{"docs":[{"ok":${DOC}}],"id":"a","y":[]}],"z":{}}`],
  ["with escapes", `{"results":[{"id":"\\u0061","docs":[{"ok":${DOC}}]}]}`],
  ["without the row's id", `{"results":[{"docs":[{"ok":${DOC}}]}]}`],
])("a document is returned as text, %s", (_, text) => {
  const documents = [{ id: "a", text: DOC }];
  expect(parse(text, "a")).toMatchObject([{ kind: "documents", documents }]);
});

test("treats text inside a body as part of the body, even if it resembles another row", async () => {
  const odd =
    '{"_id":"a","t":"}]},{\\"id\\":\\"b\\"","l":[{"id":"b","docs":[{"ok":{"_id":"b"}}]}]}';
  const text = `{"results":[{"id":"a","docs":[{"ok":${odd}}]},{"id":"b","docs":[{"ok":{"_id":"b"}}]}]}`;
  expect(parse(text, "a", "b")).toMatchObject([
    { kind: "documents", documents: [{ id: "a", text: odd }] },
    { kind: "documents", documents: [{ id: "b", text: '{"_id":"b"}' }] },
  ]);
});

test.each([
  ["an error", '[{"error":{"id":"a","rev":"1-a","error":"not_found"}}]'],
  ["no result", "[]"],
  ["attachments", '[{"ok":{"_id":"a","_attachments":{"x":{"stub":true}}}}]'],
  [
    "attachments, written with escapes",
    '[{"ok":{"_id":"a","_\\u0061ttachments":{"x":{"stub":true}}}}]',
  ],
  ["no history", '[{"ok":{"_id":"a","_rev":"2-a"}}]'],
  [
    "the history of another revision",
    '[{"ok":{"_id":"a","_rev":"2-a","_revisions":{"start":2,"ids":["b","a"]}}}]',
  ],
  ["another document", '[{"ok":{"_id":"b"}}]'],
  ["a document that is not an object", '[{"ok":7}]'],
  ["a result that is not an object", "[null]"],
  ["results that are not a list", '{"ok":{"_id":"a"}}'],
])("a row with %s is requested individually", (_, docs) => {
  const text = `{"results":[{"id":"a","docs":${docs}}]}`;
  expect(parse(text, "a")).toMatchObject([{ kind: "separately" }]);
});

test.each([
  ["{}", ["a"]],
  ['{"results":7}', ["a"]],
  ['{"results":[]}', ["a"]],
  ['{"results":[{"id":"b","docs":[]}]}', ["a"]],
  ['{"results":[{"id":"b","docs":[]},{"id":"a","docs":[]}]}', ["a", "b"]],
  ["[1]", ["a"]],
  ['{"results":[7]}', ["a"]],
  ['{"results":[{"id":"\\\\","docs":[{"ok":{"_id":"\\\\"}}]}]}', ["\\\\"]],
])("%s is not a valid response", (text, ids) => {
  expect(parse(text, ...ids)).toBeUndefined();
});
