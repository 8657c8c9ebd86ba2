import { describe, expect, test } from "vitest";
import { openApi, openFilms } from "./api.fixture.ts";
import { FILMS, refusal, testRows } from "./rows.ts";

const ILLEGAL_NAME =
  "Only lowercase characters (a-z), digits (0-9), and any of the characters " +
  "_, $, (, ), +, -, and / are allowed. Must begin with a letter.";

describe("databases", () => {
  testRows(FILMS, [
    {
      name: "is created",
      onlyHere: "It has another address",
      ask: "PUT /b",
      status: 201,
      json: { ok: true },
      answers: { Location: "http://127.0.0.1:5984/b" },
    },
    {
      name: "is not created twice",
      ask: "PUT /films",
      ...refusal(412, "file_exists", "The database could not be created, the file already exists."),
    },
    {
      name: "an upper-case name is illegal",
      ask: "PUT /Films",
      ...refusal(400, "illegal_database_name", `Name: 'Films'. ${ILLEGAL_NAME}`),
    },
    {
      name: "GET of a missing database responds with 404",
      ask: "GET /nope",
      ...refusal(404, "not_found", "Database does not exist."),
    },
    {
      name: "GET of an invalid database name responds with 404",
      onlyHere: "It has other limits for a request line",
      ask: `GET /${"x".repeat(20_000)}`,
      ...refusal(404, "not_found", "Database does not exist."),
    },
    { name: "HEAD of an existing database responds with 200", ask: "HEAD /films", status: 200 },
    { name: "HEAD of a missing database responds with 404", ask: "HEAD /nope", status: 404 },
    { name: "a database is removed", ask: "DELETE /films", status: 200, json: { ok: true } },
    {
      name: "DELETE of a missing database responds with 404",
      ask: "DELETE /nope",
      ...refusal(404, "not_found", "Database does not exist."),
    },
    {
      name: "DELETE of a database with a revision is refused",
      ask: "DELETE /films?rev=1-a",
      status: 400,
    },
    {
      name: "a description has CouchDB's members",
      differs: "An empty database uses no space here, and its sequence is 0",
      ask: "GET /films",
      status: 200,
      has: {
        db_name: "films",
        update_seq: "0",
        doc_count: 0,
        doc_del_count: 0,
        props: {},
        sizes: { file: 0, external: 0, active: 0 },
        instance_start_time: expect.stringMatching(/^[0-9]+$/),
      },
    },
    {
      name: "a description accepts additional slashes",
      ask: "GET //films//",
      status: 200,
      has: { db_name: "films" },
    },
    {
      name: "a full commit returns the start time of the database",
      ask: "POST /films/_ensure_full_commit",
      body: "",
      status: 201,
      has: { ok: true, instance_start_time: expect.any(String) },
    },
    {
      name: "a full commit requires JSON",
      ask: "POST /films/_ensure_full_commit",
      headers: { "Content-Type": "text/plain" },
      body: "x",
      ...refusal(415, "bad_content_type", "Content-Type must be application/json"),
    },
    { name: "compaction is accepted", ask: "POST /films/_compact", body: "", status: 202 },
    { name: "clean-up is accepted", ask: "POST /films/_view_cleanup", body: "", status: 202 },
    {
      name: "views are not implemented",
      differs: "Views are not part of Tandem",
      ask: "GET /films/_design/a/_view/b",
      status: 501,
    },
    { name: "the security object is returned", ask: "GET /films/_security", status: 200 },
    {
      name: "an invalid security object is refused",
      differs: "CouchDB fails with no_majority",
      ask: "PUT /films/_security",
      body: [],
      ...refusal(400, "bad_request", "Request body must be a JSON object"),
    },
    {
      name: "a security object with invalid names is refused",
      differs: "CouchDB fails with no_majority",
      ask: "PUT /films/_security",
      body: { admins: { names: "alice" } },
      ...refusal(400, "bad_request", "admins.names must be a JSON list of strings"),
    },
    {
      name: "the revision limit is returned",
      ask: "GET /films/_revs_limit",
      status: 200,
      json: 1000,
    },
    {
      name: "a revision limit that is not a number is refused",
      differs: "CouchDB fails with function_clause",
      ask: "PUT /films/_revs_limit",
      body: '"x"',
      ...refusal(400, "bad_request", "The revision limit must be a positive integer"),
    },
    {
      name: "a revision limit that is not positive is refused",
      differs: "CouchDB fails with function_clause",
      ask: "PUT /films/_revs_limit",
      body: "0",
      ...refusal(400, "bad_request", "The revision limit must be a positive integer"),
    },
  ]);

  test("a database name can contain slashes and every character that CouchDB's rule allows", async () => {
    const { ask } = await openApi();
    const name = encodeURIComponent("a/b_$()+-/c");
    expect((await ask(`PUT /${name}`)).status).toBe(201);
    await ask(`PUT /${name}/doc`, { body: {} });
    expect((await ask(`GET /${name}`)).json).toMatchObject({
      db_name: "a/b_$()+-/c",
      doc_count: 1,
    });
    expect((await ask("GET /_all_dbs")).json).toEqual(["a/b_$()+-/c"]);
  });

  test("a re-created database has a new instance_start_time", async () => {
    const { ask } = await openFilms();
    const before = (await ask("GET /films")).json.instance_start_time;
    await ask("DELETE /films");
    await ask("PUT /films");
    expect((await ask("GET /films")).json.instance_start_time).not.toBe(before);
  });

  test("a security object is returned exactly as it was stored", async () => {
    const { ask } = await openFilms();
    const text = '{"x":1.0,"admins":{"names":["a"]}}';
    expect((await ask("PUT /films/_security", { body: text })).json).toEqual({ ok: true });
    expect((await ask("GET /films/_security")).text).toBe(`${text}\n`);
  });

  test("a request can change the revision limit", async () => {
    const { ask } = await openFilms();
    await ask("PUT /films/_revs_limit", { body: "5" });
    expect((await ask("GET /films/_revs_limit")).text).toBe("5\n");
  });

  test("lowering the revision limit shortens the returned revision histories to the new limit", async () => {
    const { ask } = await openFilms();
    let rev = "";
    const revisions: string[] = [];
    for (let count = 0; count < 4; count++) {
      const written = await ask("PUT /films/a", { body: rev === "" ? {} : { _rev: rev } });
      rev = written.json.rev;
      revisions.unshift(rev.slice(2));
    }
    const shown = async () => (await ask("GET /films/a?revs=true")).json._revisions;
    expect(await shown()).toEqual({ start: 4, ids: revisions });
    await ask("PUT /films/_revs_limit", { body: "2" });
    const cut = { start: 4, ids: revisions.slice(0, 2) };
    expect(await shown()).toEqual(cut);
    const docs = { docs: [{ id: "a" }] };
    const bulk = await ask("POST /films/_bulk_get?revs=true", { body: docs });
    expect(bulk.json.results[0].docs[0].ok._revisions).toEqual(cut);
    const open = await ask("GET /films/a?open_revs=all&revs=true", {
      headers: { Accept: "application/json" },
    });
    expect(open.json[0].ok._revisions).toEqual(cut);
    await ask("PUT /films/_revs_limit", { body: "9" });
    expect(await shown()).toEqual({ start: 4, ids: revisions });
  });
});

test.each([
  ["partitioned=true", 501, "not_implemented", "Partitioned databases are not supported"],
  ["partitioned=maybe", 400, "bad_request", "Invalid `partitioned` parameter"],
  ["partitioned=", 400, "bad_request", "Invalid `partitioned` parameter"],
  ["q=abc", 400, "bad_request", "The `q` value should be a positive integer."],
  ["q=1.5", 400, "bad_request", "The `q` value should be a positive integer."],
  ["q=-1&n=1", 400, "bad_request", "The `q` value should be a positive integer."],
  ["n=0", 400, "bad_request", "The `n` value should be a positive integer."],
  ["n=", 400, "bad_request", "The `n` value should be a positive integer."],
])(
  "PUT /db?%s returns status %i, and creates no database",
  async (query, status, error, reason) => {
    const { ask } = await openFilms();
    const refused = await ask(`PUT /new?${query}`, { body: "" });
    expect(refused).toMatchObject({ status, json: { error, reason } });
    expect((await ask("GET /new")).status).toBe(404);
  },
);

test("PUT /db?q=8&n=3&partitioned=false creates the database", async () => {
  const { ask } = await openFilms();
  expect((await ask("PUT /new?q=8&n=3&partitioned=false", { body: "" })).status).toBe(201);
});
