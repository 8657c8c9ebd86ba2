import { describe, expect, test } from "vitest";
import { type IniSections, parseIni, withIniValue } from "./ini.ts";

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

function asObject(sections: IniSections): Record<string, Record<string, string>> {
  return Object.fromEntries(
    [...sections].map(([section, pairs]) => [section, Object.fromEntries(pairs)]),
  );
}

test("the error for an invalid line contains the number of the line but not its content", () => {
  expect(() => parseIni("[a]\nadmin pa55")).toThrow(
    /^line 2: expected \[section\] or key = value$/,
  );
});

describe("a file with duplicate sections and keys", () => {
  const text = [
    "[log]",
    "level = info",
    "; loud",
    "level = debug,",
    "  all",
    "[replicator]",
    "max_jobs = 10",
    "",
    "[log]",
    "format = json",
    "[replicator]",
    "max_jobs = 20 ; later",
    "",
  ].join("\n");

  test("has the last value of each key", () => {
    const sections = parseIni(text);
    expect(sections.get("log")).toEqual(
      new Map([
        ["level", "debug, all"],
        ["format", "json"],
      ]),
    );
    expect(sections.get("replicator")?.get("max_jobs")).toBe("20");
  });

  test.each([
    ["log", "level"],
    ["log", "format"],
    ["replicator", "max_jobs"],
  ])("[%s] %s can be set and removed", (section, key) => {
    const place = { section, key };
    const without = withIniValue(text, place, undefined);
    expect(without).toContain("; loud");
    const left = asObject(parseIni(text));
    delete left[section]?.[key];
    expect(asObject(parseIni(without))).toEqual(left);
    const after = { ...left, [section]: { ...left[section], [key]: "new" } };
    expect(asObject(parseIni(withIniValue(text, place, "new")))).toEqual(after);
  });
});
