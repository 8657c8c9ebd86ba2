/** An index gives the same results as a full scan after any sequence of operations. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseJson, printJson } from "../../../src/base/index.ts";
import { compareJson, valueAt } from "../../../src/protocol/index.ts";
import { type OpenApi, openFilms } from "../api.fixture.ts";

/** Sends a request without reformatting the numbers in its body. */
type Ask = (request: string, body?: object) => ReturnType<OpenApi["ask"]>;

const value = fc.oneof(
  fc.constantFrom(null, true, false, 0, -0, 1, -1, 2.5, -2.5, 1e300, 5e-324),
  fc
    .constantFrom(
      ...["1.0", "-0.0", "1e3", "9007199254740992", "9007199254740993", "-9007199254740993"],
      // Integers that no double represents exactly. The index stores their difference from the
      // nearest double in one, three and five bytes.
      ...["369553424691494913", "12345678901234567890123", "12345678901234567890124"],
      ...["1234567890123456789012345678", "1234567890123456789012445678"],
    )
    .map(parseJson),
  fc.constantFrom("[9007199254740993]", '{"1":1,"0":1.0}', '{"0":1,"1":1}').map(parseJson),
  fc.constantFrom(
    "",
    "a",
    "A",
    "á",
    "ab",
    "b",
    "B",
    "и",
    "й",
    "ื",
    "\u0000",
    "a\u0301",
    "a\u200d",
    "ื\u200d",
    "中",
    "a😀",
  ),
  fc.constantFrom("x".repeat(3_000), `${"x".repeat(3_000)}y`, `${"x".repeat(900)}z`),
  fc.constantFrom<unknown>([], [1], [1, "a"], ["a"], [[]], {}, { a: 1 }, { a: "b" }, { b: 1 }),
);
const attachments = fc.constantFrom({ x: { data: "eA==" } }, { y: { data: "" } });
const body = fc.record(
  {
    a: value,
    b: value,
    c: fc.record({ d: value }, { requiredKeys: [] }),
    _attachments: attachments,
  },
  { requiredKeys: [] },
);
const id = fc.constantFrom("1", "2", "3", "4", "5", "B", "a", "é", "x y");

/** Options of a query. */
interface Reading {
  readonly descending: boolean;
  readonly conflicts: boolean;
}

type Step =
  | { readonly kind: "put"; readonly id: string; readonly body: object }
  | { readonly kind: "delete" | "purge" | "settle" | "purge-loser"; readonly id: string }
  | { readonly kind: "conflict"; readonly id: string; readonly body: object; readonly hash: string }
  | { readonly kind: "index" | "remove"; readonly fields: readonly string[] };

/** Paths of metadata members that a document may contain, or that a query may request. */
const METADATA_MEMBERS = [
  ["_conflicts"],
  ["_conflicts.0", "a"],
  ["_rev"],
  ["_attachments"],
  ["_attachments.x.revpos"],
  ["_deleted"],
  ["_revisions"],
  ["_deleted_conflicts"],
];
const fields = fc.constantFrom(
  ["a"],
  ["b"],
  ["a", "b"],
  ["c.d"],
  ["_id", "a"],
  ...METADATA_MEMBERS,
);

/** Generates random operations on documents with these ids. */
const stepsOf = (ids: fc.Arbitrary<string>): fc.Arbitrary<Step> =>
  fc.oneof(
    { weight: 6, arbitrary: fc.record({ kind: fc.constant("put" as const), id: ids, body }) },
    {
      weight: 1,
      arbitrary: fc.record({ kind: fc.constantFrom("delete" as const, "purge" as const), id: ids }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        kind: fc.constantFrom("settle" as const, "purge-loser" as const),
        id: ids,
      }),
    },
    {
      weight: 3,
      arbitrary: fc.record({
        kind: fc.constant("conflict" as const),
        id: ids,
        body,
        hash: fc.constantFrom("0", "8", "f").map((digit) => digit.repeat(32)),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({ kind: fc.constantFrom("index" as const, "remove" as const), fields }),
    },
  );

async function revisionOf(ask: Ask, id: string): Promise<string | undefined> {
  const answer = await ask(`GET /films/${encodeURIComponent(id)}`);
  return answer.status === 200 ? answer.json._rev : undefined;
}

async function carryOut(ask: Ask, step: Step): Promise<void> {
  switch (step.kind) {
    case "put":
    case "delete": {
      const _rev = await revisionOf(ask, step.id);
      const edit = step.kind === "put" ? step.body : { _deleted: true };
      const doc = { ...edit, _id: step.id, ...(_rev === undefined ? {} : { _rev }) };
      await ask("POST /films/_bulk_docs", { docs: [doc] });
      return;
    }
    case "conflict": {
      const docs = [{ ...step.body, _id: step.id, _rev: `1-${step.hash}` }];
      await ask("POST /films/_bulk_docs", { docs, new_edits: false });
      return;
    }
    case "settle":
    case "purge-loser": {
      const { json } = await ask(`GET /films/${encodeURIComponent(step.id)}?conflicts=true`);
      const [loser] = json._conflicts ?? [];
      if (loser === undefined) return;
      if (step.kind === "purge-loser") await ask("POST /films/_purge", { [step.id]: [loser] });
      else await ask(`DELETE /films/${encodeURIComponent(step.id)}?rev=${loser}`);
      return;
    }
    case "purge": {
      const _rev = await revisionOf(ask, step.id);
      if (_rev !== undefined) await ask("POST /films/_purge", { [step.id]: [_rev] });
      return;
    }
    case "index": {
      const name = step.fields.join();
      const index = { fields: step.fields };
      const answer = await ask("POST /films/_index", { index, ddoc: name, name });
      expect(answer.status).toBe(200);
      return;
    }
    case "remove":
      await ask(`DELETE /films/_index/${step.fields.join()}/json/${step.fields.join()}`);
  }
}

const operator = fc.constantFrom("$eq", "$gt", "$gte", "$lt", "$lte");
const condition = fc.oneof(
  fc.tuple(operator, value).map(([name, operand]) => ({ [name]: operand })),
  fc.tuple(operator, value, operator, value).map(([low, from, high, to]) => ({
    ...{ [low]: from },
    ...{ [high]: to },
  })),
  fc.constantFrom("", "a", "x", "и", "á").map((prefix) => ({ $beginsWith: prefix })),
  fc.constantFrom({ $exists: true }, { $ne: 1 }, { $in: ["a", 1] }),
);
/** Conditions on metadata. */
const METADATA_CONDITIONS: readonly object[] = [
  { _conflicts: { $exists: true } },
  { _conflicts: { $size: 1 } },
  { _conflicts: ["1-00000000000000000000000000000000"] },
  { "_conflicts.0": { $gt: "1-5" } },
  { "_conflicts.0": { $gt: null }, a: { $gt: 0 } },
  { _rev: { $gt: "1-5" } },
  { _attachments: { $exists: true } },
  { "_attachments.x.revpos": { $gte: 1 } },
  { _deleted: { $exists: true } },
  { _revisions: { $exists: true } },
  { _deleted_conflicts: { $exists: true } },
];
const selector: fc.Arbitrary<object> = fc.oneof(
  { weight: 2, arbitrary: fc.constantFrom(...METADATA_CONDITIONS) },
  condition.map((a) => ({ a })),
  condition.map((b) => ({ b })),
  fc.tuple(condition, condition).map(([a, b]) => ({ a, b })),
  condition.map((d) => ({ c: { d } })),
  fc
    .tuple(operator, id, operator, fc.oneof(id, value))
    .map(([low, from, high, to]) => ({ _id: { ...{ [low]: from }, ...{ [high]: to } } })),
);

async function expectSameAnswers(
  steps: readonly Step[],
  selectors: readonly object[],
  { descending, conflicts }: Reading,
): Promise<void> {
  const films = await openFilms();
  const ask: Ask = (request, body) =>
    films.ask(request, body === undefined ? {} : { body: printJson(body) });
  for (const each of steps) await carryOut(ask, each);
  for (const each of selectors) await compare(ask, each, { descending, conflicts });
}

const reading = fc.record({ descending: fc.boolean(), conflicts: fc.boolean() });

describe("an indexed query", () => {
  test("returns the same documents as a full scan, in the order of the index", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(stepsOf(id), { maxLength: 25 }),
        fc.array(selector, { minLength: 3, maxLength: 6 }),
        reading,
        expectSameAnswers,
      ),
      { numRuns: Number(process.env.FUZZ_COUNT ?? 60) },
    );
  }, 600_000);

  test("matches metadata correctly after any changes to losing leaves", async () => {
    const indexes = METADATA_MEMBERS.map((each): Step => ({ kind: "index", fields: each }));
    await fc.assert(
      fc.asyncProperty(
        fc.array(stepsOf(fc.constantFrom("1", "2")), { maxLength: 20 }),
        fc.nat(20),
        reading,
        (steps, at, read) => {
          const all = [...steps.slice(0, at), ...indexes, ...steps.slice(at)];
          return expectSameAnswers(all, METADATA_CONDITIONS, read);
        },
      ),
      { numRuns: Number(process.env.FUZZ_COUNT ?? 20) },
    );
  }, 600_000);
});

/**
 * Checks that the requested fields have the same text whether they are read from index entries or
 * from documents.
 */
async function compareCovered(
  ask: Ask,
  query: { readonly selector: object; readonly use_index: readonly string[] },
  columns: readonly string[],
): Promise<void> {
  const all = { ...query, limit: 100 };
  const fields = ["_id", ...columns];
  const reported = await ask("POST /films/_find", { ...all, fields });
  if (reported.status === 400 || reported.json.warning?.includes("was not used")) return;
  // No index contains the requested field `none`, so the query has to read documents.
  const read = await ask("POST /films/_find", { ...all, fields: [...fields, "none"] });
  const docs = (text: string): string => text.slice(0, text.indexOf('"bookmark"'));
  expect(docs(reported.text)).toBe(docs(read.text));
}

async function compare(
  ask: Ask,
  wanted: object,
  { descending, conflicts }: Reading,
): Promise<void> {
  const all = await ask("POST /films/_find", {
    // The primary index requires a condition on the id, and sorts by the id.
    selector: { $and: [{ _id: { $gt: null } }, wanted] },
    use_index: "_all_docs",
    limit: 100,
    sort: [{ _id: "asc" }],
    conflicts,
  });
  const { json: list } = await ask("GET /films/_index");
  for (const { ddoc, name, def } of list.indexes.slice(1)) {
    const [first] = Object.keys(def.fields[0]) as [string];
    const sort = descending ? [{ [first]: "desc" }] : [];
    // A sorted query omits documents that lack the sort field.
    const selector = descending ? { $and: [wanted, { [first]: { $exists: true } }] } : wanted;
    const request = { selector, use_index: [ddoc, name], sort, limit: 3, conflicts };
    const columns = def.fields.flatMap((field: object) => Object.keys(field));
    await compareCovered(ask, request, columns);
    const found: { readonly _id: string }[] = [];
    for (let bookmark = "nil"; ; ) {
      const { status, json } = await ask("POST /films/_find", { ...request, bookmark });
      if (status === 400) {
        expect(json.error).toBe("no_usable_index");
        break;
      }
      found.push(...json.docs);
      ({ bookmark } = json);
      const isUsed = !json.warning?.includes("was not used");
      if (json.docs.length < 3 || !isUsed) {
        if (isUsed)
          expectSame(found, having(all.json.docs, descending ? first : "_id"), first, descending);
        break;
      }
    }
  }
}

type Found = { readonly [name: string]: unknown };

function having(docs: readonly Found[], field: string): readonly Found[] {
  return docs.filter((doc) => valueAt(doc, field.split(".")) !== undefined);
}

function expectSame(
  found: readonly Found[],
  all: readonly Found[],
  first: string,
  descending: boolean,
): void {
  const ids = (docs: typeof found) => docs.map(({ _id }) => _id).toSorted();
  expect(ids(found)).toEqual(ids(all));
  if (first !== "a") return;
  const isLong = ({ a }: (typeof found)[number]) => JSON.stringify(a).length > 900;
  const values = found.filter((doc) => !isLong(doc)).map(({ a }) => a);
  const order = descending ? -1 : 1;
  const sorted = [...values].sort((left, right) => order * compareJson(left, right));
  expect(values).toEqual(sorted);
}
