import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { compileSelector } from "./selector.ts";

interface Recorded {
  readonly documents: readonly { readonly _id: string }[];
  readonly cases: readonly {
    readonly name: string;
    readonly selector: Readonly<Record<string, unknown>>;
    /** The ids that passed, or nothing when CouchDB refused the selector. */
    readonly changes: readonly string[] | string | null;
  }[];
}

const fixture = new URL("../../test/fixtures/selector-cases.json", import.meta.url);
const { documents, cases }: Recorded = JSON.parse(readFileSync(fixture, "utf8"));

test.each(cases.map((row) => [row.name, row] as const))(
  "passes the documents that a CouchDB 3.5 passed: %s",
  (_, { selector, changes }) => {
    if (!Array.isArray(changes)) {
      expect(() => compileSelector(selector)).toThrow();
      return;
    }
    const matches = compileSelector(selector);
    expect(documents.filter(matches).map(({ _id }) => _id)).toEqual(changes);
  },
);

test.each([
  [{ $gt: "B" }, ["Z", "a", "é", "😀"]],
  [{ $lte: "a" }, ["B", "Z", "a"]],
  [{ $gt: "\uffff" }, ["😀"]],
  [{ $gt: {} }, ["B", "Z", "a", "é", "😀"]],
  [{ $lt: [] }, []],
  [{ $not: { $gt: "Z" } }, ["B", "Z"]],
])("compares ids by their bytes, and above all that is no text: %j", (condition, ids) => {
  const matches = compileSelector({ _id: condition });
  const all = ["B", "Z", "a", "é", "😀"].map((_id) => ({ _id }));
  expect(all.filter(matches).map(({ _id }) => _id)).toEqual(ids);
});

test.each([
  [{ $not: {} }, []],
  [{ $nor: [{}] }, []],
  [{ $and: [{ $not: {} }, { n: 1 }] }, []],
  [{ $or: [{ $not: {} }, { n: 1 }] }, [1]],
  [{ $not: { $not: {} } }, [1, {}]],
  [{ n: { $not: {} } }, [1]],
  [{ $nor: [{ n: {} }] }, [1]],
  [{ list: { $elemMatch: { $not: {} } } }, []],
])("negates an empty condition: %j", (selector, expected) => {
  const matches = compileSelector(selector);
  const all = [1, {}].map((n) => ({ n, list: [1] }));
  expect(all.filter(matches).map(({ n }) => n)).toEqual(expected);
});
