import { expect, test } from "vitest";
import { Utf8Text } from "../base/index.ts";
import { IndexedDocument } from "./indexed-document.ts";

const BODY =
  '{"one":1,"float":1.0,"text":"\\u00e9","half":"\\ud800","list":[1,2.50,[3]],"wide":[1, 2],"halves":["\\ud800"],"one":2}';

test.each([
  ["one", true],
  ["float", false],
  ["text", true],
  ["half", false],
  ["list", false],
  ["list.0", true],
  ["list.1", false],
  ["list.2", true],
  ["wide", false],
  ["halves", false],
  ["_id", true],
])("the value of %s is written plainly: %s", (field, isPlain) => {
  const document = new IndexedDocument({
    id: "a",
    revision: "1-a",
    deleted: false,
    body: Utf8Text.of(BODY),
    revisions: { start: 1, hashes: ["a"] },
    attachments: [],
  });
  const path = field.split(".");
  const value = path.reduce<unknown>(
    (outer, name) => (outer as Record<string, unknown>)[name],
    document.json,
  );
  expect(document.hasPlainly(path, value)).toBe(isPlain);
});
