import { expect, test } from "vitest";
import { utf8Encode } from "../../base/index.ts";
import { RecordReader, RecordWriter } from "./record-bytes.ts";

test.each([
  ["none", ""],
  ["the longest with a length of one byte", "x".repeat(127)],
  ["one more", "x".repeat(128)],
  ["one that is not of ASCII at its end", `${"x".repeat(126)}é`],
  ["one that is not of ASCII at its beginning", "é"],
  ["one that needs more room than a new record has", "x".repeat(5_000)],
])("a text is its length and its UTF-8: %s", (_, text) => {
  const bytes = new RecordWriter().byte(1).text(text).text("next").finish();
  const sized = new RecordWriter().byte(1).sized(utf8Encode(text)).sized(utf8Encode("next"));
  expect(bytes).toEqual(sized.finish());
  const reader = new RecordReader(bytes);
  expect([reader.byte(), reader.text(), reader.text()]).toEqual([1, text, "next"]);
});
