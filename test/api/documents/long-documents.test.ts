/**
 * Long documents and slow selectors, which could block other requests. The API therefore matches
 * selectors in a thread, and streams long documents.
 */
import { expect, test } from "vitest";
import { openFilms } from "../api.fixture.ts";

const LONG = {
  _id: "long",
  n: 5,
  o: { p: { q: "here", r: [1, 2.5] } },
  list: Array.from({ length: 60_000 }, (_, at) => ({ at })),
  text: `${"ab ".repeat(200_000)}end`,
};
const SHORT = { _id: "short", n: 5, list: [{ at: 59_999 }], text: "no", o: { p: { q: "here" } } };

async function openLong() {
  const films = await openFilms();
  await films.ask("POST /films/_bulk_docs", { body: { docs: [LONG, SHORT] } });
  return films;
}

test.each<[selector: object, ids: string[]]>([
  [{ n: 5 }, ["long", "short"]],
  [{ n: { $gt: 5 } }, []],
  [{ list: { $size: 60_000 } }, ["long"]],
  [{ list: { $elemMatch: { at: 59_999 } } }, ["long", "short"]],
  [{ "list.59999.at": 59_999 }, ["long"]],
  [{ text: { $regex: "end$" } }, ["long"]],
  [{ "o.p.r": { $exists: false } }, ["short"]],
  [{ _id: { $in: ["long", "other"] }, _rev: { $regex: "^1-" } }, ["long"]],
])(
  "a selector gives the same result for a long document as for a short one: %j",
  async (selector, ids) => {
    const { ask } = await openLong();
    const found = await ask("POST /films/_find", { body: { selector, fields: ["_id"] } });
    expect(found.json.docs).toEqual(ids.map((_id) => ({ _id })));
    const changed = await ask("POST /films/_changes?filter=_selector", { body: { selector } });
    expect(changed.json.results.map(({ id }: { id: string }) => id).sort()).toEqual(ids);
  },
);

test("requested fields of a long document are returned as stored, including nested fields", async () => {
  const { ask } = await openFilms();
  await ask("PUT /films/a", {
    body: `{"n":1.0,"o":{"p":[{"q":12345678901234567890}],"pad":"${"x".repeat(100_000)}"},"pad":"${"x".repeat(100_000)}"}`,
  });
  const fields = ["n", "o.p.0.q", "o.p.7", "o.pad.x", "none", "o.p.q"];
  const { text } = await ask("POST /films/_find", { body: { selector: {}, fields } });
  expect(text).toContain('{"n":1.0,"o":{"p":{"0":{"q":12345678901234567890}}}}');
});

test("an index includes long documents, and evaluates its partial filter on all of their fields", async () => {
  const { ask } = await openLong();
  const index = { fields: ["n"], partial_filter_selector: { "list.59999": { $exists: true } } };
  const { json } = await ask("POST /films/_index", { body: { index, name: "i", ddoc: "i" } });
  expect(json.result).toBe("created");
  await ask("PUT /films/later", { body: { ...LONG, _id: "later" } });
  const body = { selector: { n: 5 }, use_index: "i", fields: ["_id"] };
  const found = await ask("POST /films/_find", { body });
  expect(found.json.docs).toEqual([{ _id: "later" }, { _id: "long" }]);
});

test("a selector that runs too long is aborted, and the next selector is evaluated", async () => {
  const { ask } = await openLong();
  const numbers = Array.from({ length: 100_000 }, (_, at) => at);
  await ask("PUT /films/numbers", { body: { numbers } });
  const never = { numbers: { $all: Array.from({ length: 9_000 }, () => numbers.at(-1)) } };
  const { status, json } = await ask("POST /films/_find", { body: { selector: never } });
  expect([status, json]).toEqual([
    500,
    {
      error: "os_process_error",
      reason: "The selector took more than 1000 ms for one document.",
    },
  ]);
  const found = await ask("POST /films/_find", { body: { selector: { n: 5 } } });
  expect(found.json.docs).toHaveLength(2);
});

/**
 * JSON with line breaks, which feeds remove, and with multibyte characters, which chunks can split.
 */
const SPACED_LIST = `[${Array.from({ length: 60_000 }, (_, at) => `{"at":${at},\r\n"é": "€"}`)}]`;

test.each<[answer: string, request: string, body: object | undefined, isByLines: boolean]>([
  ["a document", "GET /films/spaced", undefined, false],
  ["its revisions", 'GET /films/spaced?open_revs=["1-a"]', undefined, false],
  ["a bulk read", "POST /films/_bulk_get", { docs: [{ id: "spaced" }] }, false],
  ["all documents", "GET /films/_all_docs?include_docs=true", undefined, true],
  ["documents by keys", "POST /films/_all_docs?include_docs=true", { keys: ["spaced"] }, true],
  ["local documents", "GET /films/_local_docs?include_docs=true", undefined, true],
  ["a local document", "GET /films/_local/spaced", undefined, false],
  ["changes", "GET /films/_changes?include_docs=true", undefined, true],
  ["a feed", "GET /films/_changes?include_docs=true&feed=continuous&timeout=0", undefined, true],
  ["events", "GET /films/_changes?include_docs=true&feed=eventsource&timeout=0", undefined, true],
  ["a query", "POST /films/_find", { selector: { _id: "spaced" } }, true],
])(
  "a long document is streamed exactly as it was stored: %s",
  async (_, request, body, isByLines) => {
    // The time limit is high, because a selector can take long on a busy machine.
    const { ask, stream } = await openFilms({ functionMs: 60_000 });
    const spaced = `{"_rev":"1-a","list":${SPACED_LIST},"end":1.0}`;
    await ask("PUT /films/spaced?new_edits=false", { body: spaced });
    await ask("PUT /films/_local/spaced", { body: {} });
    await ask("PUT /films/_local/spaced", { body: spaced.replace("1-a", "0-1") });
    const sent: string[] = [];
    const answer = await stream(request, body === undefined ? {} : { body });
    for (let { done, value } = await answer.next(); done !== true; ) {
      sent.push(value);
      ({ done, value } = await answer.next());
    }
    expect(Math.max(...sent.map(({ length }) => length))).toBeLessThan(100_000);
    const expected = isByLines ? SPACED_LIST.replaceAll("\r\n", "  ") : SPACED_LIST;
    expect(sent.join("").includes(`"list":${expected},"end":1.0`)).toBe(true);
  },
);
