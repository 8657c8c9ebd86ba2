import { describe, expect, test } from "vitest";
import { KeyValueError } from "../../../src/kv/index.ts";
import { type Asked, openApi, openFilms } from "../api.fixture.ts";
import { FILMS, refusal, testRows } from "../rows.ts";

/**
 * Opens a database `films` with a document `a`, a document `b` with two leaves, and a deleted
 * document `c`.
 */
async function openPurgeable(open: () => Promise<Asked> = openFilms) {
  const api = await open();
  await api.ask("POST /films/_bulk_docs", {
    body: {
      new_edits: false,
      docs: [
        { _id: "a", _rev: "1-a" },
        { _id: "b", _revisions: { start: 2, ids: ["x", "r"] } },
        { _id: "b", _revisions: { start: 2, ids: ["y", "r"] } },
        { _id: "c", _revisions: { start: 2, ids: ["d", "c"] }, _deleted: true },
      ],
    },
  });
  return api;
}

interface Gone {
  readonly id: string;
  readonly deleted: boolean;
}

const numbers = (count: number) => Array.from({ length: count }, (_, number) => number);

const many = Object.fromEntries(Array.from({ length: 250 }, (_, n) => [`k${n}`, ["1-a"]]));
const manyRevisions = [...Array.from({ length: 1_001 }, (_, n) => `1-${n}`), "2-y"];

describe("_purge", () => {
  testRows(openPurgeable, [
    {
      name: "reports the purged revisions",
      ask: "POST /films/_purge",
      body: { a: ["1-a"], c: ["2-d"] },
      status: 201,
      json: { purge_seq: null, purged: { a: ["1-a"], c: ["2-d"] } },
    },
    {
      name: "purges leaves only",
      ask: "POST /films/_purge",
      body: { b: ["1-r", "2-y", "9-q"] },
      status: 201,
      json: { purge_seq: null, purged: { b: ["2-y"] } },
    },
    {
      name: "reports no revisions for an unknown document",
      ask: "POST /films/_purge",
      body: { nope: ["1-r"], _odd: ["1-r"] },
      status: 201,
      json: { purge_seq: null, purged: { nope: [], _odd: [] } },
    },
    {
      name: "purges nothing for an empty request",
      ask: "POST /films/_purge",
      body: {},
      status: 201,
      json: { purge_seq: null, purged: {} },
    },
    {
      name: "requires an object",
      ask: "POST /films/_purge",
      body: [],
      ...refusal(400, "bad_request", "Request body must be a JSON object"),
    },
    {
      name: "requires lists of revisions",
      ask: "POST /films/_purge",
      body: { a: "1-a" },
      ...refusal(400, "bad_request", "Invalid list of revisions"),
    },
    {
      name: "requires revisions",
      ask: "POST /films/_purge",
      body: { a: ["x"] },
      ...refusal(400, "bad_request", "Invalid rev format"),
    },
    {
      name: "requires revisions that are strings",
      ask: "POST /films/_purge",
      body: { a: [1] },
      ...refusal(400, "bad_request", "Invalid rev format"),
    },
    {
      name: "accepts any number of documents",
      ask: "POST /films/_purge",
      body: { ...many, a: ["1-a"] },
      status: 201,
      json: {
        purge_seq: null,
        purged: { ...Object.fromEntries(Object.keys(many).map((id) => [id, []])), a: ["1-a"] },
      },
      differs: "CouchDB limits a purge to 100 documents",
    },
    {
      name: "accepts any number of revisions",
      ask: "POST /films/_purge",
      body: { b: manyRevisions, a: ["1-a"] },
      status: 201,
      json: { purge_seq: null, purged: { b: ["2-y"], a: ["1-a"] } },
      differs: "CouchDB limits a purge to 1,000 revisions",
    },
    {
      name: "requires JSON",
      ask: "POST /films/_purge",
      headers: { "Content-Type": "text/plain" },
      body: "{}",
      ...refusal(415, "bad_content_type", "Content-Type must be application/json"),
    },
    {
      name: "requires POST",
      ask: "GET /films/_purge",
      ...refusal(405, "method_not_allowed", "Only POST allowed"),
      answers: { Allow: "POST" },
    },
    {
      name: "requires a database",
      ask: "POST /nowhere/_purge",
      body: {},
      ...refusal(404, "not_found", "Database does not exist."),
    },
    {
      name: "returns the limit of purge infos",
      ask: "GET /films/_purged_infos_limit",
      status: 200,
      json: 1000,
    },
    {
      name: "sets the limit of purge infos",
      ask: "PUT /films/_purged_infos_limit",
      body: "50",
      status: 200,
      json: { ok: true },
    },
    {
      name: "refuses a limit of purge infos that is not positive",
      ask: "PUT /films/_purged_infos_limit",
      body: "0",
      ...refusal(400, "bad_request", "`purged_infos_limit` must be positive integer"),
    },
    {
      name: "refuses a limit of purge infos that is not a number",
      ask: "PUT /films/_purged_infos_limit",
      body: '"x"',
      ...refusal(400, "bad_request", "`purged_infos_limit` must be positive integer"),
    },
  ]);

  test("removes the purged revisions from documents, lists, changes and counts", async () => {
    const { ask } = await openPurgeable();
    await ask("POST /films/_purge", { body: { a: ["1-a"], b: ["2-y"] } });
    expect((await ask("GET /films/a")).json).toEqual({ error: "not_found", reason: "missing" });
    expect((await ask("GET /films/b")).json).toEqual({ _id: "b", _rev: "2-x" });
    const { json: changes } = await ask("GET /films/_changes?style=all_docs");
    expect(changes.results.map((row: { id: string }) => row.id)).toEqual(["c", "b"]);
    expect(changes.results[1].changes).toEqual([{ rev: "2-x" }]);
    expect((await ask("GET /films/_all_docs")).json.total_rows).toBe(1);
    expect((await ask("GET /films")).json).toMatchObject({
      doc_count: 1,
      doc_del_count: 1,
      purge_seq: "2",
    });
    expect((await ask("GET /films/_purged_infos")).json).toEqual({
      purged_infos: [
        { id: "a", revs: ["1-a"] },
        { id: "b", revs: ["2-y"] },
      ],
    });
  });

  test("purges documents whose index entries together exceed a transaction", async () => {
    const { ask } = await openFilms();
    const fields = Object.fromEntries(numbers(30).map((n) => [`f${n}`, "x".repeat(1_000)]));
    for (const field of Object.keys(fields)) {
      await ask("POST /films/_index", { body: { index: { fields: [field] }, ddoc: field } });
    }
    const docs = numbers(20).map((n) => ({ _id: `${n}`.padEnd(7_000, "i"), ...fields }));
    const written = (await ask("POST /films/_bulk_docs", { body: { docs } })).json;
    const body = Object.fromEntries(
      written.map(({ id, rev }: { id: string; rev: string }) => [id, [rev]]),
    );
    const { status, json } = await ask("POST /films/_purge", { body });
    expect([status, json.purged]).toEqual([201, body]);
    const query = { selector: { f0: { $gt: null } }, fields: ["_id"] };
    expect((await ask("POST /films/_find", { body: query })).json.docs).toEqual([]);
  });

  test("records revisions that together exceed a value of the store", async () => {
    const { ask } = await openFilms();
    const revisions = numbers(300).map((n) => `1-${`${n}`.padEnd(500, "h")}`);
    const { status, json } = await ask("POST /films/_purge", { body: { a: revisions } });
    expect([status, json.purged]).toEqual([201, { a: [] }]);
    const { purged_infos: infos } = (await ask("GET /films/_purged_infos")).json;
    expect(infos.flatMap(({ revs }: { revs: string[] }) => revs).sort()).toEqual(revisions.sort());
  });

  test("reports what was purged before a failure", async () => {
    const hook = {
      appliesTo: () => true,
      afterWrite: async (_tx: unknown, _database: unknown, { id, deleted }: Gone) => {
        if (deleted && id === "120") throw new KeyValueError("KV_UNAVAILABLE", { reason: "test" });
      },
    };
    const { ask } = await openFilms({ hooks: [hook] });
    const ids = numbers(150).map(String);
    const docs = ids.map((_id) => ({ _id, _rev: "1-a" }));
    await ask("POST /films/_bulk_docs", { body: { new_edits: false, docs } });
    const body = Object.fromEntries(ids.map((id) => [id, ["1-a"]]));
    const { status, json } = await ask("POST /films/_purge", { body });
    const failure = { error: "service_unavailable", reason: "test" };
    const expected = ids.map((id, index) => [id, index < 100 ? ["1-a"] : failure]);
    expect([status, json.purged]).toEqual([503, Object.fromEntries(expected)]);
    expect((await ask("GET /films")).json.doc_count).toBe(50);
  });

  test("is allowed only for server admins", async () => {
    const { ask } = await openApi({ user: { name: "ann", roles: [], isAdmin: false } });
    expect((await ask("POST /films/_purge", { body: {} })).status).toBe(401);
    const limit = { body: "5" };
    expect((await ask("PUT /films/_purged_infos_limit", limit)).status).toBe(401);
  });
});

describe("purging by age", () => {
  const later = "CouchDB 3.5 does not have it; a later one does, and answers like this";
  testRows(FILMS, [
    {
      name: "has no age by default",
      onlyHere: later,
      ask: "GET /films/_auto_purge",
      status: 200,
      json: {},
    },
    {
      name: "can be disabled",
      onlyHere: later,
      ask: "PUT /films/_auto_purge",
      body: { deleted_document_ttl: "infinity" },
      status: 201,
      json: { ok: true },
    },
    {
      name: "can be set to an age",
      onlyHere: later,
      ask: "PUT /films/_auto_purge",
      body: { deleted_document_ttl: "3_days" },
      status: 201,
      json: { ok: true },
    },
    {
      name: "accepts a request without an age",
      onlyHere: later,
      ask: "PUT /films/_auto_purge",
      body: {},
      status: 201,
      json: { ok: true },
    },
    {
      name: "requires an object",
      onlyHere: later,
      ask: "PUT /films/_auto_purge",
      body: ["3_days"],
      ...refusal(400, "bad_request", "Request body must be a JSON object"),
    },
    {
      name: "requires JSON",
      onlyHere: later,
      ask: "PUT /films/_auto_purge",
      body: "{}",
      headers: { "Content-Type": "text/plain" },
      ...refusal(415, "bad_content_type", "Content-Type must be application/json"),
    },
    {
      name: "accepts a time that is a string",
      onlyHere: later,
      ask: "PUT /films/_auto_purge",
      body: { deleted_document_ttl: 3 },
      ...refusal(400, "bad_request", "deleted_document_ttl must be a valid string"),
    },
    {
      name: "refuses unknown members",
      onlyHere: later,
      ask: "PUT /films/_auto_purge",
      body: { ttl: "infinity" },
      ...refusal(400, "bad_request", "invalid auto purge property"),
    },
    {
      name: "requires an existing database",
      ask: "GET /nope/_auto_purge",
      ...refusal(404, "not_found", "Database does not exist."),
    },
  ]);

  test("returns the age as it was sent, until a valid request changes it", async () => {
    const { ask } = await openFilms();
    const age = async () => (await ask("GET /films/_auto_purge")).json;
    for (const deleted_document_ttl of ["90_days", "infinity", "01_mon"]) {
      await ask("PUT /films/_auto_purge", { body: { deleted_document_ttl } });
      expect(await age()).toEqual({ deleted_document_ttl });
    }
    const refused = { body: { deleted_document_ttl: "1_eon" } };
    expect((await ask("PUT /films/_auto_purge", refused)).status).toBe(400);
    expect(await age()).toEqual({ deleted_document_ttl: "01_mon" });
    await ask("PUT /films/_auto_purge", { body: {} });
    expect(await age()).toEqual({});
  });

  test.each([
    ...["", "3", "days", "0_days", "-1_day", "1.5_days", "3 days", "3_DAYS", "3_days ", "1e9_y"],
    ...[`${"9".repeat(400)}_days`, "3_days\u0000", "__proto__", null, true, 3, ["3_days"], {}],
  ])("refuses the age %j", async (deleted_document_ttl) => {
    const { ask } = await openFilms();
    const { status, json } = await ask("PUT /films/_auto_purge", {
      body: { deleted_document_ttl },
    });
    const reason = "deleted_document_ttl must be a valid string";
    expect([status, json]).toEqual([400, { error: "bad_request", reason }]);
  });
});
