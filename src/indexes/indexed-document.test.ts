import { expect, test } from "vitest";
import { Utf8Text, Yielder } from "../base/index.ts";
import type { Document } from "../databases/index.ts";
import { DocumentSelector, type SelectorLimits } from "../documents/index.ts";
import { systemDigests } from "../host/system/digests.ts";
import { Collation } from "./collation.ts";
import { type Indexing, indexedDocument } from "./indexed-document.ts";
import { Index } from "./indexes.ts";

const MEMBERS =
  '"one":1,"float":1.0,"text":"\\u00e9","half":"\\ud800","list":[1,2.50,[3]],"wide":[1, 2],"halves":["\\ud800"]';
/** A body with a duplicate member name. */
const BODY = `{${MEMBERS},"one":2}`;
const LONG_BODY = `{${MEMBERS},"long":"${"x".repeat(1_000_000)}","one":2}`;

const PLAIN_FIELDS: [field: string, isPlain: boolean][] = [
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
];

const clock = { monotonicMs: () => 0, nowMs: () => 0, sleep: async () => {} };
const yielder = new Yielder(clock);

test.each(
  [BODY, LONG_BODY].flatMap((body) => PLAIN_FIELDS.map((field) => [...field, body] as const)),
)(
  "the value of %s is stored as JSON.stringify would write it: %s",
  async (field, isPlain, body) => {
    const path = field.split(".");
    const document = await open(body, [{ paths: [path], filter: undefined }]);
    expect(document.hasPlainly(path, document.valueAt(path))).toBe(isPlain);
  },
);

const DEFINITION = { design: "_design/d", name: "i", number: 1, version: "1" };

test.each<[what: string, fields: string[], body: object]>([
  ["scalars", ["n", "t"], { n: 1, t: "é" }],
  ["nested values", ["o.p", "l.1"], { o: { p: [true] }, l: [1, { a: 2 }] }],
  ["a truncated list", ["l"], { l: Array.from({ length: 50_000 }, (_, at) => at) }],
  [
    "truncated objects",
    ["l", "n"],
    { l: Array.from({ length: 9_000 }, (_, n) => ({ n, a: [] })), n: 1 },
  ],
  ["a truncated string", ["t"], { t: "ab ".repeat(50_000) }],
  ["strings before the end", ["l"], { l: ["a".repeat(70_000), "b"] }],
  ["many levels", ["l"], { l: JSON.parse(`${"[".repeat(2_500)}"x"${"]".repeat(2_500)}`) }],
  ["no such field", ["n", "m"], { n: 1 }],
  ["no such element", ["l.7"], { l: [1] }],
  ["ids and stubs", ["_id", "_rev", "n"], { n: null }],
])("a long document has the same entry as a short one: %s", async (_, fields, body) => {
  const index = new Index(
    {
      ...DEFINITION,
      fields: fields.map((name) => ({ name, direction: "asc" as const })),
      partialFilter: undefined,
    },
    await Collation.derive(systemDigests, yielder),
  );
  const whole = JSON.stringify(body);
  const long = JSON.stringify({ ...body, pad: "x".repeat(100_000) });
  const alike = { valueAt: (path: readonly string[]) => at({ ...BESIDE, ...body }, path) };
  const expected = index.valuesOf({
    ...alike,
    hasPlainly: () => true,
    passes: () => true,
  });
  const values = index.valuesOf(await open(long, [index]));
  expect(values?.bytes).toEqual(expected?.bytes);
  if (whole.length < 65_536) {
    expect(values).toEqual(index.valuesOf(await open(whole, [index])));
  }
});

test("the filter of an index sees all fields of a long document in the sandbox", async () => {
  const asked: string[] = [];
  const limits = limitsOf(async ({ selector }) => {
    asked.push(selector);
    return selector.includes("long");
  });
  const passing = new DocumentSelector({ long: { $exists: true } });
  const other = new DocumentSelector({ none: 1 });
  const withoutField = new DocumentSelector({ long: { $size: 1 } });
  const indexes = [
    { paths: [["one"]], filter: passing },
    { paths: [["one"]], filter: other },
    { paths: [["missing"]], filter: withoutField },
  ];
  const document = await open(LONG_BODY, indexes, { limits });
  expect([passing, other, withoutField].map((filter) => document.passes(filter))).toEqual([
    true,
    false,
    false,
  ]);
  expect(asked).toHaveLength(2);
});

const BESIDE = { _id: "a", _rev: "1-a" };

function at(value: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>((outer, name) => {
    return (outer as Record<string, unknown> | undefined)?.[name];
  }, value);
}

test.each([BODY, LONG_BODY].map((body) => [body.length, body] as const))(
  "a document of %i bytes has _conflicts only if it has conflicts",
  async (_, body) => {
    const path = ["_conflicts"];
    const indexes = [{ paths: [path], filter: undefined }];
    const conflicting = await open(body, indexes, { conflicts: ["1-b"] });
    expect((await open(body, indexes)).valueAt(path)).toBeUndefined();
    expect(JSON.stringify(conflicting.valueAt(path))).toBe('["1-b"]');
  },
);

async function open(
  body: string,
  indexes: readonly Indexing[],
  { limits = limitsOf(), conflicts = [] as readonly string[] } = {},
) {
  const document: Document = {
    id: "a",
    revision: "1-a",
    deleted: false,
    body: Utf8Text.of(body),
    revisions: { start: 1, hashes: ["a"] },
    attachments: [],
  };
  return indexedDocument({ document, conflicts }, indexes, limits, yielder);
}

function limitsOf(
  matches: SelectorLimits["sandbox"]["matches"] = async () => true,
): SelectorLimits {
  const call = () => Promise.reject(new Error("No function runs here"));
  return { sandbox: { call, matches }, timeoutMs: 1, share: { user: "", database: "" } };
}
