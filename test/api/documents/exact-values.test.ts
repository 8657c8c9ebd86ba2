/**
 * Selectors compare numbers, strings and the order of members as in CouchDB. This holds for every
 * code path that evaluates selectors.
 */
import { expect, test } from "vitest";
import { type Asked, openFilms } from "../api.fixture.ts";

/**
 * Document bodies as JSON text, because `JSON.stringify` would change numbers and the order of
 * members.
 */
const BODIES: Readonly<Record<string, string>> = {
  big13: '{"n":369553424691494913}',
  big900: '{"n":369553424691494900}',
  huge: '{"n":-123456789012345678901234567890}',
  one: '{"n":1}',
  "one-float": '{"n":1.0}',
  thousand: '{"n":1e3}',
  ab: '{"o":{"a":1,"b":2}}',
  ba: '{"o":{"b":2,"a":1}}',
  "1-0": '{"o":{"1":2,"0":1}}',
  "0-1": '{"o":{"0":1,"1":2}}',
  nfc: '{"t":"\u00e9"}',
  nfd: '{"t":"e\u0301"}',
  plain: '{"t":"e"}',
  numbers: '{"l":[1,9007199254740993]}',
  floats: '{"l":[1.0,9007199254740992]}',
};
const PAD = "x".repeat(450_000);

type Store = "short" | "long";

async function openBodies(store: Store): Promise<Asked> {
  const { ask } = await openFilms();
  for (const [id, body] of Object.entries(BODIES)) {
    const stored = store === "short" ? body : `${body.slice(0, -1)},"pad":"${PAD}"}`;
    expect((await ask(`PUT /films/${id}`, { body: stored })).status).toBe(201);
  }
  return { ask };
}

const CASES: readonly (readonly [selector: string, ids: readonly string[]])[] = [
  ['{"n":369553424691494913}', ["big13"]],
  ['{"n":{"$gt":369553424691494900,"$lt":369553424691494914}}', ["big13"]],
  ['{"n":{"$in":[369553424691494900,1.0]}}', ["big900", "one", "one-float"]],
  ['{"n":{"$lte":-123456789012345678901234567890}}', ["huge"]],
  ['{"n":{"$lt":-123456789012345678901234567890}}', []],
  ['{"n":1000}', ["thousand"]],
  ['{"n":{"$mod":[1,0]}}', ["big13", "big900", "huge", "one"]],
  ['{"n":{"$mod":[10,3]}}', ["big13"]],
  ['{"n":{"$not":{"$ne":369553424691494913}}}', ["big13"]],
  ['{"o":{"$eq":{"b":2,"a":1}}}', ["ba"]],
  ['{"o":{"$in":[{"a":1,"b":2}]}}', ["ab"]],
  ['{"o":{"$eq":{"1":2,"0":1}}}', ["1-0"]],
  ['{"o":{"$gt":{"b":1}}}', ["ba"]],
  ['{"t":"\u00e9"}', ["nfc", "nfd"]],
  ['{"t":{"$in":["e\u0301"]}}', ["nfc", "nfd"]],
  ['{"t":{"$gt":"e"}}', ["nfc", "nfd"]],
  ['{"t":{"$ne":"e\u0301"}}', ["plain"]],
  ['{"l":{"$all":[9007199254740993]}}', ["numbers"]],
  ['{"l":{"$all":[1]}}', ["numbers"]],
  ['{"l":{"$in":[1.0]}}', ["floats", "numbers"]],
  ['{"_id":"ba","o":{"$exists":true}}', ["ba"]],
];

const idsOf = (rows: readonly { readonly _id?: string; readonly id?: string }[]) =>
  rows.map(({ _id, id }) => _id ?? id).sort();

test.each(["short", "long"] as const)(
  "a selector compares numbers and member order exactly in %s documents",
  async (store) => {
    const { ask } = await openBodies(store);
    for (const [selector, ids] of CASES) {
      const found = await ask("POST /films/_find", {
        body: `{"selector":${selector},"fields":["_id"]}`,
      });
      expect([selector, idsOf(found.json.docs)]).toEqual([selector, ids.toSorted()]);
      const changed = await ask("POST /films/_changes?filter=_selector", {
        body: `{"selector":${selector}}`,
      });
      expect([selector, idsOf(changed.json.results)]).toEqual([selector, ids.toSorted()]);
    }
  },
);

test("an index returns the same results as a full scan, and sorts numbers exactly", async () => {
  const { ask } = await openBodies("short");
  for (const field of ["n", "o", "t", "l"]) {
    const body = { index: { fields: [field] }, ddoc: field };
    expect((await ask("POST /films/_index", { body })).json.result).toBe("created");
  }
  for (const [selector, ids] of CASES) {
    const [field] = /[notl]/.exec(selector.replace("_id", "")) ?? [];
    const body = `{"selector":${selector},"use_index":"${field}","fields":["_id"]}`;
    const { json } = await ask("POST /films/_find", { body });
    expect([selector, idsOf(json.docs)]).toEqual([selector, ids.toSorted()]);
    expect(json.warning ?? "").not.toContain("was not used");
  }
  const body = '{"selector":{"n":{"$gt":1}},"sort":["n"],"fields":["n"]}';
  const { text } = await ask("POST /films/_find", { body });
  expect(text.replace(/\s/g, "")).toContain(
    '[{"n":1e3},{"n":369553424691494900},{"n":369553424691494913}]',
  );
});

test("a partial index preserves the exact numbers in its filter", async () => {
  const { ask } = await openBodies("short");
  const filter = '{"n":369553424691494913}';
  const index = `{"fields":["n"],"partial_filter_selector":${filter}}`;
  await ask("POST /films/_index", { body: `{"index":${index},"ddoc":"p"}` });
  const find = '{"selector":{"n":{"$gt":0}},"use_index":"p","fields":["_id"]}';
  const { json } = await ask("POST /films/_find", { body: find });
  expect(json.docs).toEqual([{ _id: "big13" }]);
  for (const request of ["GET /films/_index", "GET /films/_design/p"]) {
    expect((await ask(request)).text).toContain('"n":{"$eq":369553424691494913}');
  }
  const changed = index.replace("913", "900");
  const again = await ask("POST /films/_index", { body: `{"index":${changed},"ddoc":"q"}` });
  expect(again.json.result).toBe("created");
  const other = await ask("POST /films/_index", { body: `{"index":${changed}}` });
  const third = await ask("POST /films/_index", { body: `{"index":${index}}` });
  expect(third.json.name).not.toBe(other.json.name);
});

test("_explain returns the selector with its numbers and member order unchanged", async () => {
  const { ask } = await openFilms();
  const selector = '{"n":{"$eq":369553424691494913},"o":{"$lt":{"1":1.0,"0":-0}}}';
  const { text } = await ask("POST /films/_explain", { body: `{"selector":${selector}}` });
  expect(text).toContain('{"n":{"$eq":369553424691494913}},{"o":{"$lt":{"1":1.0,"0":-0}}}');
});

const MISSING = "One or more conditions is missing a field name.";

test.each([
  ['{"$gt":5}'],
  ['{"$in":[1]}'],
  ['{"$not":{"$gt":5}}'],
  ['{"$elemMatch":{"a":1}}'],
  ['{"$exists":true}'],
  ['{"":5}'],
])(
  "all endpoints that accept a selector refuse an operator outside a field: %s",
  async (selector) => {
    const { ask } = await openFilms();
    const refusal = { error: "invalid_selector", reason: MISSING };
    for (const request of ["POST /films/_find", "POST /films/_explain"]) {
      const { status, json } = await ask(request, { body: `{"selector":${selector}}` });
      expect([status, json]).toEqual([400, refusal]);
    }
    const index = `{"index":{"fields":["a"],"partial_filter_selector":${selector}}}`;
    const made = await ask("POST /films/_index", { body: index });
    expect([made.status, made.json]).toEqual([400, refusal]);
    const changes = await ask("POST /films/_changes?filter=_selector", {
      body: `{"selector":${selector}}`,
    });
    expect([changes.status, changes.json]).toEqual([
      400,
      { error: "bad_request", reason: MISSING },
    ]);
  },
);
