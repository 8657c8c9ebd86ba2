import { expect, test } from "vitest";
import { parseIni } from "./ini.ts";

test("sections, values with semicolons, comments and continuations are read as CouchDB reads them", () => {
  const sections = parseIni(
    [
      "; a comment",
      "[replicator.shares]",
      "a/_replicator = 200 ; twice the rest",
      "[chttpd]",
      "authentication_handlers = {one, cookie},",
      "   {two, default}",
      "key=a;b",
      "empty =",
    ].join("\n"),
  );
  expect(sections.get("replicator.shares")?.get("a/_replicator")).toBe("200");
  expect(sections.get("chttpd")?.get("authentication_handlers")).toBe(
    "{one, cookie}, {two, default}",
  );
  expect(sections.get("chttpd")?.get("key")).toBe("a;b");
  expect(sections.get("chttpd")?.get("empty")).toBe("");
});

test("a line that is nothing is named", () => {
  expect(() => parseIni("[a]\nnonsense")).toThrow("line 2");
});
