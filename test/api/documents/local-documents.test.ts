import { expect, test } from "vitest";
import { openFilms } from "../api.fixture.ts";
import { FILMS, refusal, testRows } from "../rows.ts";

test("a local document can be created, changed, removed, and created again", async () => {
  const { ask } = await openFilms();
  const made = await ask("PUT /films/_local/check", { body: '{"n":1.0}' });
  expect(made).toMatchObject({ status: 201, json: { ok: true, id: "_local/check", rev: "0-1" } });
  const read = await ask("GET /films/_local/check");
  expect(read.text).toBe('{"_id":"_local/check","_rev":"0-1","n":1.0}\n');
  expect((await ask("GET /films/_local%2Fcheck")).text).toBe(read.text);
  const changed = await ask("PUT /films/_local/check", { body: { _rev: "0-1", n: 2 } });
  expect(changed.json.rev).toBe("0-2");
  expect(await ask("DELETE /films/_local/check?rev=0-2")).toMatchObject({
    status: 200,
    json: { ok: true, id: "_local/check" },
  });
  expect((await ask("GET /films/_local/check")).json.reason).toBe("missing");
  expect((await ask("PUT /films/_local/check", { body: {} })).json.rev).toBe("0-1");
});

test("a local document is not counted and does not appear in the changes feed", async () => {
  const { ask } = await openFilms();
  await ask("PUT /films/_local/check", { body: {} });
  expect((await ask("GET /films")).json).toMatchObject({ doc_count: 0, update_seq: "0" });
  expect((await ask("GET /films/_changes")).json.results).toEqual([]);
  expect((await ask("GET /films/_all_docs")).json.rows).toEqual([]);
});

test("a local document is not sent again to a client that has its current version", async () => {
  const { ask } = await openFilms();
  await ask("PUT /films/_local/check", { body: { n: 1 } });
  const { ETag = "" } = (await ask("GET /films/_local/check")).headers;
  const headers = { "If-None-Match": ETag };
  expect((await ask("GET /films/_local/check", { headers })).status).toBe(304);
  await ask("DELETE /films/_local/check");
  await ask("PUT /films/_local/check", { body: { n: 2 } });
  expect((await ask("GET /films/_local/check", { headers })).status).toBe(200);
});

testRows(FILMS, [
  {
    name: "an unknown local document is missing",
    ask: "GET /films/_local/x",
    ...refusal(404, "not_found", "missing"),
  },
  {
    name: "an unknown local document is not removed",
    ask: "DELETE /films/_local/x",
    ...refusal(404, "not_found", "missing"),
  },
  {
    name: "an invalid revision is refused",
    differs: "Tandem reports the error of a request",
    ask: "PUT /films/_local/x",
    body: { _rev: "1-abc" },
    ...refusal(400, "bad_request", "Invalid rev format"),
  },
  {
    name: "attachments are omitted",
    ask: "PUT /films/_local/x",
    body: { _attachments: { a: { data: "" } } },
    status: 201,
    json: { ok: true, id: "_local/x", rev: "0-1" },
  },
  ...["GET", "PUT", "DELETE"].map((method) => ({
    name: `attachments are refused (${method})`,
    ask: `${method} /films/_local/x/file`,
    ...refusal(400, "bad_request", "_local documents do not accept attachments."),
  })),
  {
    name: "the first entry of _revisions is the parent revision",
    differs: "CouchDB creates a document with any revision",
    ask: "PUT /films/_local/x",
    body: { _rev: "0-7", _revisions: { start: 0, ids: ["3", "2"] } },
    ...refusal(409, "conflict", "Document update conflict."),
  },
  {
    name: "an empty list in _revisions means that no parent is given",
    ask: "PUT /films/_local/x",
    body: { _revisions: { start: 0, ids: [] } },
    status: 201,
    json: { ok: true, id: "_local/x", rev: "0-1" },
  },
  {
    name: "revisions that no local document can have are refused",
    differs: "Tandem reports the error of a request",
    ask: "PUT /films/_local/x",
    body: { _revisions: { start: 5, ids: ["1"] } },
    ...refusal(400, "bad_request", "Invalid rev format"),
  },
  ...["GET", "PUT", "DELETE"].flatMap((method) =>
    ["_local", "_local/", "_local%2F"].map((id) => ({
      name: `an empty id is refused (${method} ${id})`,
      ask: `${method} /films/${id}`,
      ...(method === "PUT" ? { body: {} } : {}),
      ...refusal(400, "bad_request", "Invalid _local document id."),
    })),
  ),
]);
