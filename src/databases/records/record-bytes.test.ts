import { expect, test } from "vitest";
import { utf8Encode } from "../../base/index.ts";
import { RecordReader, RecordWriter } from "./record-bytes.ts";

test.each([
  ["empty", ""],
  ["the longest with a one-byte length", "x".repeat(127)],
  ["one byte longer", "x".repeat(128)],
  ["not ASCII at its end", `${"x".repeat(126)}é`],
  ["not ASCII at its start", "é"],
  ["larger than a new record's buffer", "x".repeat(5_000)],
])("a string is encoded as its length and its UTF-8 bytes: %s", (_, text) => {
  const bytes = new RecordWriter().byte(1).text(text).text("next").finish();
  const sized = new RecordWriter().byte(1).sized(utf8Encode(text)).sized(utf8Encode("next"));
  expect(bytes).toEqual(sized.finish());
  const reader = new RecordReader(bytes);
  expect([reader.byte(), reader.text(), reader.text()]).toEqual([1, text, "next"]);
});
