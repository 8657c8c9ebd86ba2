import { expect, test } from "vitest";
import { checkRuleAfter, fullNames, parseAfter, refuseSelf, refuseShortNames } from "./after.ts";

function reasonOf(check: () => unknown): string {
  try {
    check();
  } catch (error) {
    return (error as { readonly reason: string }).reason;
  }
  throw new Error("The names are accepted");
}

test.each([
  ["a", ["a"]],
  [
    ["b", "a", "b"],
    ["b", "a"],
  ],
  [undefined, undefined],
  [null, undefined],
  [[], undefined],
])("parses %j into the names %j", (given, names) => {
  expect(parseAfter(given)).toEqual(names);
});

test.each([
  [
    7,
    '`after` must be the name of a job, such as "other-job" or "_replicator/other-job", of 1 to 768 printable characters, but is 7',
  ],
  ["", 'but is ""'],
  [{ name: "a" }, 'but is {"name":"a"}'],
  [["a", 7], "`after[1]` must be the name of a job"],
  [["a\u0000"], "`after[0]`"],
  ["a".repeat(769), "1 to 768"],
  [[..."abcdefghi"], "`after` must have at most 8 names, but has 9"],
])("%j is rejected with the field, its value and the accepted values", (given, reason) => {
  expect(reasonOf(() => parseAfter(given))).toContain(reason);
});

test("a name without a slash refers to a document of the same database", () => {
  expect(fullNames(["a", "_replicator/a", "rule/db"], "_replicator")).toEqual([
    "_replicator/a",
    "rule/db",
  ]);
});

test("rejects a document whose `after` contains its own id or its full name", () => {
  const self = { database: "_replicator", id: "a" };
  expect(reasonOf(() => refuseSelf(["b", "a"], self))).toContain("names this document itself");
  expect(reasonOf(() => refuseSelf(["_replicator/a"], self))).toContain("itself");
  refuseSelf(["b", "x/_replicator/a"], self);
});

test("rejects names without a slash in requests and rules, and a rule that names its own jobs", () => {
  expect(reasonOf(() => refuseShortNames(["r/a", "b"]))).toContain('but has "b"');
  expect(reasonOf(() => checkRuleAfter(["b"], "r"))).toContain('but has "b"');
  expect(reasonOf(() => checkRuleAfter(["r/{db}"], "r"))).toContain("this rule itself");
  expect(reasonOf(() => checkRuleAfter(["q/{db}-{db}"], "r"))).toContain("at most once");
  expect(reasonOf(() => checkRuleAfter(["q/{1}"], "r"))).toContain("may contain {db}");
  checkRuleAfter(["q/{db}", "_replicator/first"], "r");
});
