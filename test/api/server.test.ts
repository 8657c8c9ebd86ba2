import { describe, expect, test } from "vitest";
import { type ApiParts, defineRoute, json, MEMBER, PUBLIC } from "../../src/api/index.ts";
import { OperationalError } from "../../src/base/index.ts";
import { ProtocolError } from "../../src/protocol/index.ts";
import { openApi, openFilms, SETTINGS } from "./api.fixture.ts";
import { FILMS, refusal, testRows } from "./rows.ts";

describe("the server", () => {
  testRows(FILMS, [
    {
      name: "describes itself as CouchDB does",
      differs: "It has other features",
      ask: "GET /",
      status: 200,
      json: {
        couchdb: "Welcome",
        version: "3.5.0",
        git_sha: "",
        uuid: "0123456789abcdef0123456789abcdef",
        features: ["scheduler"],
        vendor: { name: "Tandem", version: "0.1.0" },
      },
      answers: {
        "Cache-Control": "must-revalidate",
        "Content-Type": "application/json",
        Server: "CouchDB/3.5.0 (Tandem 0.1.0)",
        "X-CouchDB-Body-Time": "0",
        "X-Couch-Request-ID": expect.stringMatching(/^[0-9a-f]{10}$/),
      },
    },
    { name: "is up", ask: "GET /_up", status: 200, json: { status: "ok", seeds: {} } },
    {
      name: "lists its databases",
      onlyHere: "It has databases of other users",
      ask: "GET /_all_dbs",
      status: 200,
      json: ["films"],
    },
    {
      name: "is one node",
      onlyHere: "It has another name",
      ask: "GET /_membership",
      status: 200,
      has: { all_nodes: ["tandem@test"] },
    },
    {
      name: "lists the database with a given name",
      ask: 'GET /_all_dbs?key="_nobodys"',
      status: 200,
      json: [],
    },
    {
      name: "lists databases up to an exclusive end key",
      ask: 'GET /_all_dbs?startkey="_users"&endkey="_users"&inclusive_end=false',
      status: 200,
      json: [],
    },
    {
      name: "lists no databases for a limit of zero",
      ask: "GET /_all_dbs?limit=0",
      status: 200,
      json: [],
    },
    {
      name: "describes several databases at once",
      onlyHere: "The names are in the body",
      ask: "POST /_dbs_info",
      body: { keys: ["films", "nope"] },
      status: 200,
      has: [
        { key: "films", info: { db_name: "films" } },
        { key: "nope", error: "not_found" },
      ],
    },
    {
      name: "describes invalid database names",
      ask: "POST /_dbs_info",
      body: { keys: ["No such name!"] },
      status: 200,
      json: [{ key: "No such name!", error: "not_found" }],
    },
    {
      name: "describes no databases for an empty list",
      ask: "POST /_dbs_info",
      body: { keys: [] },
      status: 200,
      json: [],
    },
    {
      name: "describes databases by their names",
      ask: "POST /_dbs_info",
      body: {},
      ...refusal(400, "bad_request", "`keys` member must exist."),
    },
    {
      name: "describes databases by a list of names",
      ask: "POST /_dbs_info",
      body: { keys: "films" },
      ...refusal(400, "bad_request", "`keys` member must be an array."),
    },
    {
      name: "limits the number of databases described at once",
      ask: "POST /_dbs_info",
      body: { keys: Array.from({ length: 101 }, () => "films") },
      ...refusal(400, "bad_request", "too_many_keys"),
    },
    {
      name: "requires the JSON content type for descriptions",
      ask: "POST /_dbs_info",
      body: { keys: [] },
      headers: { "Content-Type": "text/plain" },
      ...refusal(415, "bad_content_type", "Content-Type must be application/json"),
    },
    {
      name: "describes all databases",
      onlyHere: "It has databases of other users",
      ask: "GET /_dbs_info",
      status: 200,
      has: [{ key: "films", info: { db_name: "films", doc_count: 0 } }],
    },
    {
      name: "describes the databases of a range",
      ask: 'GET /_dbs_info?startkey="_nobodys"&endkey="_nobodyt"',
      status: 200,
      json: [],
    },
    {
      name: "returns the allowed methods of descriptions",
      ask: "PUT /_dbs_info",
      ...refusal(405, "method_not_allowed", "Only GET,HEAD,POST allowed"),
    },
    {
      name: "treats an unknown path as a database",
      ask: "GET /_xyz",
      ...refusal(404, "not_found", "Database does not exist."),
    },
    {
      name: "finds no documents in it",
      ask: "PUT /_xyz/a",
      body: {},
      ...refusal(404, "not_found", "Database does not exist."),
    },
    {
      name: "explains the rules for database names",
      ask: "PUT /_xyz",
      ...refusal(
        400,
        "illegal_database_name",
        "Name: '_xyz'. Only lowercase characters (a-z), digits (0-9), and any of the characters _, $, (, ), +, -, and / are allowed. Must begin with a letter.",
      ),
    },
    {
      name: "is a cluster of one",
      ask: "GET /_cluster_setup",
      status: 200,
      json: { state: "single_node_enabled" },
    },
    {
      name: "is set up",
      ask: "POST /_cluster_setup",
      body: { action: "finish_cluster" },
      ...refusal(400, "bad_request", "Cluster is already finished"),
    },
    {
      name: "accepts a method override in a POST",
      ask: "POST /films",
      headers: { "X-HTTP-Method-Override": "DELETE" },
      status: 200,
      json: { ok: true },
    },
    {
      name: "ignores a method override in other methods",
      ask: "GET /films/_security",
      headers: { "X-HTTP-Method-Override": "PUT" },
      status: 200,
    },
    {
      name: "ignores unknown methods in an override",
      ask: "POST /films",
      headers: { "X-HTTP-Method-Override": "PATCH" },
      body: {},
      status: 201,
    },
    {
      name: "returns the request id of a client",
      onlyHere: "CouchDB does the same, but recordings omit the header",
      ask: "GET /",
      headers: { "X-Couch-Request-ID": "my-request_1" },
      status: 200,
      answers: { "X-Couch-Request-ID": "my-request_1" },
    },
    {
      name: "returns the allowed methods of a resource",
      ask: "POST /_all_dbs",
      ...refusal(405, "method_not_allowed", "Only GET,HEAD allowed"),
      answers: { Allow: "GET,HEAD" },
    },
    {
      name: "refuses an invalid count",
      ask: "GET /_uuids?count=x",
      ...refusal(400, "bad_request", "count must be a positive integer"),
    },
    {
      name: "refuses a path without a node name",
      ask: "GET /_node",
      ...refusal(400, "bad_request", "Incomplete path to _node request"),
    },
    {
      name: "refuses a negative count",
      ask: "GET /_uuids?count=-1",
      ...refusal(400, "bad_request", "count must be a positive integer"),
    },
    {
      name: "forbids caching of ids for all HTTP versions",
      ask: "GET /_uuids",
      status: 200,
      answers: {
        "Cache-Control": "no-cache",
        Expires: "Mon, 01 Jan 1990 00:00:00 GMT",
        Pragma: "no-cache",
        ETag: expect.stringMatching(/^"\S+"$/),
      },
    },
    {
      name: "refuses a negative limit",
      differs: "Tandem names the parameter",
      ask: "GET /_all_dbs?limit=-1",
      ...refusal(400, "query_parse_error", "limit not in range of [0,infinity]"),
    },
    {
      name: "refuses a path that is not UTF-8",
      differs: "CouchDB treats it as an id",
      ask: "GET /films/%ff",
      ...refusal(400, "bad_request", "The path is not UTF-8 encoded"),
    },
  ]);

  test("generates the requested number of uuids", async () => {
    const { ask } = await openApi();
    const { uuids } = (await ask("GET /_uuids?count=3")).json;
    expect(new Set(uuids).size).toBe(3);
    for (const uuid of uuids) expect(uuid).toMatch(/^[0-9a-f]{32}$/);
  });

  test("generates at most the configured number of uuids", async () => {
    const { ask } = await openApi({ parts: { settings: { ...SETTINGS, uuidCountMax: 2 } } });
    expect((await ask("GET /_uuids?count=2")).status).toBe(200);
    expect(await ask("GET /_uuids?count=3")).toMatchObject(
      refusal(400, "bad_request", "count parameter too large"),
    );
  });

  test("gives a document without an id a sequential id", async () => {
    const { ask } = await openApi();
    await ask("PUT /films");
    const made = await ask("POST /films", { body: {} });
    const bulk = await ask("POST /films/_bulk_docs", { body: { docs: [{}, {}] } });
    const ids = [made.json.id, ...bulk.json.map(({ id }: { id: string }) => id)];
    expect(ids).toEqual([...ids].sort());
    expect(new Set(ids.map((id) => id.slice(0, 26))).size).toBe(1);
  });

  test("treats a plus in a path as a space unless configured otherwise", async () => {
    for (const plusIsSpace of [true, false]) {
      const { ask } = await openApi({ parts: { settings: { ...SETTINGS, plusIsSpace } } });
      await ask("PUT /films");
      const { json } = await ask("PUT /films/a+b%2B%20c", { body: {} });
      expect(json.id).toBe(plusIsSpace ? "a b+ c" : "a+b+ c");
    }
  });

  test("takes the host in Location headers only from the configured header", async () => {
    const settings = { ...SETTINGS, forwardedHostHeader: "X-Host" };
    const { ask } = await openApi({ parts: { settings } });
    const headers = { "X-Host": "named.example", "X-Forwarded-Host": "other.example" };
    const named = await ask("PUT /films", { headers });
    expect(named.headers.Location).toBe("http://named.example/films");
    const { "X-Host": _, ...others } = headers;
    const unnamed = await ask("PUT /books", { headers: others });
    expect(unnamed.headers.Location).toBe("http://127.0.0.1:5984/books");
  });

  test("starts Location headers with https if the request came over TLS, even through a proxy", async () => {
    const { ask } = await openFilms();
    const schemeOf = async (headers: Readonly<Record<string, string>>) => {
      const { headers: reported } = await ask("POST /films", { body: {}, headers });
      return reported.Location?.split(":")[0];
    };
    expect(await schemeOf({})).toBe("http");
    expect(await schemeOf({ "X-Forwarded-Ssl": "on" })).toBe("https");
    expect(await schemeOf({ "X-Forwarded-Ssl": "off" })).toBe("http");
    expect(await schemeOf({ "X-Forwarded-Proto": "https" })).toBe("https");
  });

  test("lists only the databases in `keys` that exist", async () => {
    const { ask } = await openApi();
    for (const name of ["a", "b", "c"]) await ask(`PUT /${name}`);
    expect((await ask('GET /_all_dbs?keys=["c","nope","a"]')).json).toEqual(["c", "a"]);
    expect((await ask('GET /_all_dbs?keys=["c","b","a"]&skip=1&limit=1')).json).toEqual(["b"]);
    expect((await ask("GET /_all_dbs?keys=[]")).json).toEqual([]);
    expect((await ask("GET /_all_dbs?keys=1")).status).toBe(400);
    const infos = (await ask('GET /_dbs_info?keys=["b","nope"]')).json;
    expect(infos.map(({ key }: { key: string }) => key)).toEqual(["b"]);
  });

  test("lists databases in pages, in ascending and in descending order", async () => {
    const { ask } = await openApi();
    for (const name of ["a", "b", "c", "d"]) await ask(`PUT /${name}`);
    expect((await ask("GET /_all_dbs?limit=2&skip=1")).json).toEqual(["b", "c"]);
    expect((await ask('GET /_all_dbs?startkey="b"&endkey="c"')).json).toEqual(["b", "c"]);
    expect((await ask("GET /_all_dbs?descending=true&limit=1")).json).toEqual(["d"]);
  });

  test("answers HEAD with the headers of the GET response and no body", async () => {
    const { ask } = await openApi();
    const head = await ask("HEAD /");
    expect(head.bytes.length).toBe(0);
    expect(head.headers["Content-Length"]).toBe(String((await ask("GET /")).bytes.length));
  });
});

describe("a 401 response offers a way to log in", () => {
  const ask = async (settings: object, headers = {}) => {
    const authenticate = async (): Promise<never> => {
      throw new ProtocolError(401, "unauthorized", "Name or password is incorrect.");
    };
    const parts = { authenticate, settings: { ...SETTINGS, ...settings } };
    return (await (await openApi({ parts })).ask("GET /", { headers })).headers["WWW-Authenticate"];
  };
  const wanted = (value: string) => ({ "X-CouchDB-WWW-Authenticate": value });

  test("the challenge is the one in the request header, otherwise the configured one, otherwise CouchDB's default", async () => {
    const both = { challenge: "Negotiate", requireValidUser: true };
    expect(await ask(both, wanted("Cookie"))).toBe("Cookie");
    expect(await ask(both)).toBe("Negotiate");
    expect(await ask({ requireValidUser: true })).toBe('Basic realm="server"');
    expect(await ask({})).toBeUndefined();
  });

  test("a requested challenge is ignored if it is not a valid header value", async () => {
    for (const value of ["", "a\r\nSet-Cookie: a=b", "a\0", "\u00e4"]) {
      expect(await ask({ requireValidUser: true }, wanted(value))).toBe('Basic realm="server"');
    }
  });

  test("a 404 response has no challenge", async () => {
    const settings = { ...SETTINGS, challenge: "Negotiate" };
    const answer = await (await openApi({ parts: { settings } })).ask("GET /films");
    expect(answer.status).toBe(404);
    expect(answer.headers).not.toHaveProperty("WWW-Authenticate");
  });
});

describe("errors", () => {
  test("an unexpected error is logged, and the client does not receive its details", async () => {
    const broken = defineRoute("GET", "/_broken", PUBLIC, async () => {
      throw new TypeError("secret");
    });
    const { ask, events } = await openApi({ parts: { routes: [broken] } });
    const answer = await ask("GET /_broken");
    expect(answer).toMatchObject({ status: 500, json: { error: "internal_server_error" } });
    expect(answer.text).not.toContain("secret");
    expect(events).toContainEqual(
      expect.objectContaining({ name: "api.request-failed", path: "/_broken", message: "secret" }),
    );
  });

  test("the response to a temporary error of the store asks the client to retry", async () => {
    const busy = defineRoute("GET", "/_busy", PUBLIC, async () => {
      throw new OperationalError("KV_CONFLICT", "The transaction conflicts with another");
    });
    const { ask } = await openApi({ parts: { routes: [busy] } });
    expect(await ask("GET /_busy")).toMatchObject({
      status: 503,
      json: { error: "service_unavailable" },
    });
  });

  test("a module's route replaces the built-in route", async () => {
    const find = defineRoute("POST", "/{database}/_find", MEMBER, async () =>
      json(200, { mine: true }),
    );
    const { ask } = await openApi({ parts: { routes: [find] } });
    expect((await ask("POST /films/_find")).json).toEqual({ mine: true });
    expect((await ask("GET /films/_find")).status).toBe(405);
  });
});

test("every endpoint refuses wrong credentials", async () => {
  const { ask } = await openApi({
    parts: {
      authenticate: async () => {
        throw new ProtocolError(401, "unauthorized", "Name or password is incorrect.");
      },
    },
  });
  expect(await ask("GET /")).toMatchObject(
    refusal(401, "unauthorized", "Name or password is incorrect."),
  );
});

test.each([
  ["GET /_replicator/x", 0],
  ["PUT /films", 0],
  ["DELETE /films", 0],
  ["PUT /_replicator/x", 1],
  ["DELETE /user%2F_replicator", 1],
])("only writes that could remove jobs wait for halted runs: %s", async (request, waitCount) => {
  let count = 0;
  const haltedRuns: ApiParts["haltedRuns"] = {
    hasJobs: (name) => name.endsWith("_replicator"),
    settledAfter(call) {
      count++;
      return call();
    },
  };
  const { ask } = await openApi({ parts: { haltedRuns } });
  await ask(request, request.startsWith("PUT") ? { body: {} } : {});
  expect(count).toBe(waitCount);
});
