/**
 * Unpaired surrogates, which CouchDB does not accept in documents, sequences and queries. Every
 * entry point refuses them with status 400 rather than 500.
 */
import { expect, test } from "vitest";
import { openApi } from "../api.fixture.ts";

const HALF = JSON.stringify("a\ud83d");
const json = (value: unknown): string => encodeURIComponent(JSON.stringify(value));

async function openFilms() {
  const { ask } = await openApi();
  await ask("PUT /films");
  await ask("PUT /films/a", { body: { _attachments: { n: { data: "" } } } });
  await ask("POST /films/_index", { body: { index: { fields: ["title"] }, name: "t" } });
  return ask;
}

const KEYS = ["key", "startkey", "start_key", "endkey", "end_key"];
const RANGES = ["_all_docs", "_design_docs", "_local_docs"];

test.each([
  ...RANGES.flatMap((place) => KEYS.map((key) => `/films/${place}?${key}=${json("\ud83d")}`)),
  ...RANGES.map((place) => `/films/${place}?keys=${json(["a", "\ude00"])}`),
  ...RANGES.map((place) => `/films/${place}?startkey=${json(["a", { b: ["\ud83d"] }])}`),
  ...RANGES.map((place) => `/films/${place}?endkey=${json({ "\ud83d": 1 })}`),
  ...["_all_dbs", "_dbs_info"].flatMap((place) =>
    KEYS.map((key) => `/${place}?${key}=${json("\ud83d")}`),
  ),
  `/_dbs_info?keys=${json(["\ud83d"])}`,
  `/films/_changes?filter=_doc_ids&doc_ids=${json(["\ud83d"])}`,
  `/films/_changes?filter=_selector&selector=${json({ a: "\ud83d" })}`,
  `/films/_changes?since=${json("\ud83d")}`,
  `/films/_changes?since=1-${json("\ud83d")}`,
  `/films/a?open_revs=${json(["1-\ud83d"])}`,
  `/films/a?open_revs=all&atts_since=${json(["1-\ud83d"])}`,
  "/films/%ED%A0%BD",
  "/films/a/%ED%A0%BD",
  "/films/_local/%ED%A0%BD",
  "/films/_design/%ED%A0%BD",
  "/%ED%A0%BD/a",
])("GET %s returns status 400", async (path) => {
  const ask = await openFilms();
  const answer = await ask(`GET ${path}`);
  expect(answer).toMatchObject({ status: 400, json: { error: expect.any(String) } });
});

test.each([
  ["POST /films", `{"_id":${HALF}}`],
  ["POST /films", `{"a":[{${HALF}:1}]}`],
  ["PUT /films/b", `{"_attachments":{${HALF}:{"data":""}}}`],
  ["PUT /films/b?new_edits=false", `{"_rev":"1-\\ud83d"}`],
  ["POST /films/_bulk_docs", `{"docs":[{"_id":${HALF}}]}`],
  ["POST /films/_bulk_get", `{"docs":[{"id":${HALF}}]}`],
  ["POST /films/_revs_diff", `{${HALF}:["1-a"]}`],
  ["POST /films/_missing_revs", `{"a":["1-\\ud83d"]}`],
  ["POST /films/_purge", `{${HALF}:["1-a"]}`],
  ["POST /films/_all_docs", `{"startkey":${HALF}}`],
  ["POST /films/_all_docs/queries", `{"queries":[{"keys":[${HALF}]}]}`],
  ["POST /films/_find", `{"selector":{"_id":${HALF}}}`],
  ["POST /films/_find", `{"selector":{},"bookmark":${HALF}}`],
  ["POST /films/_find", `{"selector":{},"bookmark":"id:\\ud83d"}`],
  ["POST /films/_find", `{"selector":{},"bookmark":"id:%ED%A0%BD"}`],
  ["POST /films/_find", `{"selector":{},"bookmark":"id:100%"}`],
  ["POST /films/_explain", `{"selector":{"title":{"$gt":${HALF}}}}`],
  ["POST /films/_index", `{"index":{"fields":[${HALF}]}}`],
  ["POST /films/_changes?filter=_doc_ids", `{"doc_ids":[${HALF}]}`],
])("%s with %s returns status 400", async (request, body) => {
  const ask = await openFilms();
  const answer = await ask(request, { body });
  expect(answer).toMatchObject({ status: 400, json: { error: expect.any(String) } });
  expect((await ask("GET /films")).json.doc_count).toBe(2);
});

test.each(["%ED%A0%BD", "100%", "%zz"])("COPY to %s returns status 400", async (destination) => {
  const ask = await openFilms();
  expect((await ask("COPY /films/a", { headers: { destination } })).status).toBe(400);
});
