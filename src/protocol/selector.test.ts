import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { normalizeSelector, type Selector } from "./normalize-selector.ts";
import { ProtocolError } from "./protocol-error.ts";
import { compileSelector } from "./selector.ts";

interface Recorded {
  readonly documents: readonly { readonly _id: string }[];
  readonly cases: readonly {
    readonly name: string;
    readonly selector: Readonly<Record<string, unknown>>;
    /** Ids that passed the filter; null if CouchDB refused the selector. */
    readonly changes: readonly string[] | string | null;
  }[];
}

const fixture = new URL("../../test/fixtures/selector-cases.json", import.meta.url);
const { documents, cases }: Recorded = JSON.parse(readFileSync(fixture, "utf8"));

test.each(cases.map((row) => [row.name, row] as const))(
  "matches the documents that CouchDB 3.5 matched: %s",
  (_, { selector, changes }) => {
    if (!Array.isArray(changes)) {
      expect(() => compileSelector(selector)).toThrow(ProtocolError);
      return;
    }
    const matches = compileSelector(selector);
    expect(documents.filter(matches).map(({ _id }) => _id)).toEqual(changes);
  },
);

test.each(
  cases.filter(({ changes }) => Array.isArray(changes)).map((row) => [row.name, row] as const),
)(
  "matches the same documents in the normal form that indexes store: %s",
  (_, { selector, changes }) => {
    const matches = compileSelector(normalizeSelector(selector) as Selector);
    expect(documents.filter(matches).map(({ _id }) => _id)).toEqual(changes);
  },
);

test.each([
  { l: { $elemMatch: { $gt: 1 } } },
  { l: { $allMatch: { $or: [{ $eq: 1 }, { $eq: 2 }] } } },
  { o: { $keyMapMatch: { $eq: "a" } } },
  { $and: [{ l: { $elemMatch: { $gt: 1, $lt: 3 } } }, { n: 1 }] },
])("the normal form of %j matches the same values and is normalized to itself", (selector) => {
  const normal = normalizeSelector(selector) as Selector;
  expect(normalizeSelector(normal)).toEqual(normal);
  const found = { l: [1, 2], o: { a: 1 }, n: 1 };
  for (const each of [selector, normal]) {
    expect([found, { l: [0], o: {}, n: 1 }].map(compileSelector(each))).toEqual([true, false]);
  }
});

test.each([
  [{ $gt: "B" }, ["Z", "a", "é", "😀"]],
  [{ $lte: "a" }, ["B", "Z", "a"]],
  [{ $gt: "\uffff" }, ["😀"]],
  [{ $gt: {} }, ["B", "Z", "a", "é", "😀"]],
  [{ $lt: [] }, []],
  [{ $not: { $gt: "Z" } }, ["B", "Z"]],
])("sorts ids bytewise, after all values that are not strings: %j", (condition, ids) => {
  const matches = compileSelector({ _id: condition });
  const all = ["B", "Z", "a", "é", "😀"].map((_id) => ({ _id }));
  expect(all.filter(matches).map(({ _id }) => _id)).toEqual(ids);
});

test.each([
  [{ $or: [{}] }, []],
  [{ $and: [{}] }, []],
  [{ $and: [{}, { n: 1 }] }, []],
  [{ $or: [{}, { n: 1 }] }, [1]],
  [{ $nor: [{}] }, [1, {}]],
  [{ $nor: [{}, { n: 1 }] }, [{}]],
  [{ $not: { $or: [{}] } }, [1, {}]],
  [{ $and: [{ $not: {} }, { n: 1 }] }, [1]],
  [{ $or: [{ $not: {} }, { n: 1 }] }, [1, {}]],
  [{ n: { $or: [{}] } }, [{}]],
  [{ n: { $not: {} } }, [1]],
  [{ $nor: [{ n: {} }] }, [1]],
  [{ list: { $elemMatch: {} } }, [1, {}]],
  [{ list: { $elemMatch: { $or: [{}] } } }, []],
  [{ list: { $elemMatch: { $not: {} } } }, [1, {}]],
])(
  "treats a nested empty condition as an empty object, as CouchDB does: %j",
  (selector, expected) => {
    const matches = compileSelector(selector);
    const all = [1, {}].map((n) => ({ n, list: [1] }));
    expect(all.filter(matches).map(({ n }) => n)).toEqual(expected);
  },
);

test.each([{ $not: {} }, { $not: { $not: {} } }, { n: { $mod: [2, 1, 0] } }, { n: { $mod: [2] } }])(
  "refuses %j, as CouchDB does",
  (selector) => {
    expect(() => compileSelector(selector)).toThrow(ProtocolError);
  },
);

test.each([
  [{ n: { $not: { $eq: true } } }, [false, 1]],
  [{ n: { $not: { $ne: true } } }, [true]],
  [{ n: { $not: { $exists: true } } }, [undefined]],
  [{ n: { $not: { $exists: false } } }, [true, false, 1]],
  [{ $nor: [{ n: false }] }, [true, 1]],
])("negates a condition whose operand is a boolean: %j", (selector, expected) => {
  const all = [true, false, 1, undefined].map((n) => (n === undefined ? {} : { n }));
  expect(all.filter(compileSelector(selector)).map(({ n }) => n)).toEqual(expected);
});

// Differs from CouchDB 3.5, which does not resolve `$nor` within `$elemMatch` and `$allMatch`, and
// finds that no element matches.
test.each([
  [{ l: { $elemMatch: { $nor: [{ $eq: 1 }] } } }, [[1, 2], [2]]],
  [{ l: { $allMatch: { $nor: [{ $eq: 1 }] } } }, [[2]]],
  [{ l: { $not: { $elemMatch: { $nor: [{ $eq: 1 }] } } } }, [[1], []]],
  [{ l: { $elemMatch: { $not: { $nor: [{ $eq: 1 }] } } } }, [[1, 2], [1]]],
])("$nor applies within $elemMatch and $allMatch: %j", (selector, expected) => {
  const all = [[1, 2], [1], [2], []].map((l) => ({ l }));
  expect(all.filter(compileSelector(selector)).map(({ l }) => l)).toEqual(expected);
});
