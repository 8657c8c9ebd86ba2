import { describe, expect, test } from "vitest";
import type { DatabaseHook } from "../../../src/databases/index.ts";
import type { Engine } from "../../../src/kv/index.ts";
import { ADMIN, type Asked, openFilms } from "../api.fixture.ts";
import { refusal, testRows } from "../rows.ts";

const DESIGN = {
  filters: {
    late: "function (doc, req) { return doc.year > 1990; };\n\n",
    since: "function (doc, req) { return doc.year > Number(req.query.year); }",
    told: "function (doc, req) { throw ['error', 'told', toJSON(req[req.query.member])]; }",
    throws: "function () { throw new Error('bad thing'); }",
    syntax: "function (doc {",
    value: "42",
    loop: "function () { for (;;); }",
    library: "function (doc) { return require('lib/years').late(doc.year); }",
    leaves: "function (doc) { return doc.kept === true; }",
  },
  lib: { years: "exports.late = function (year) { return year > 1990; };" },
  views: {
    late: { map: "function (doc) { if (doc.year > 1990) emit(null); }" },
    broken: { map: "function (doc) { doc.x.y; }" },
  },
};

async function openYears<Api extends Asked>(open: () => Promise<Api>): Promise<Api> {
  const films = await open();
  await films.ask("PUT /films/_design/d", { body: DESIGN });
  for (const year of [1980, 1990, 2000, 2010]) {
    await films.ask(`PUT /films/${year}`, { body: { year } });
  }
  return films;
}

const url = "/films/_changes";

/**
 * Returns the expected response to a request whose function fails. In CouchDB, the reason is an
 * Erlang term. In this API, the reason contains the name and the message of the error.
 */
const failed = (error: string, reason: string) => refusal(500, error, reason);

const late = { results: [{ id: "2000" }, { id: "2010" }], pending: 0 };

describe("filter functions", () => {
  testRows(openYears, [
    {
      name: "select the changes for which they return true",
      ask: `GET ${url}?filter=d/late`,
      status: 200,
      has: late,
    },
    {
      name: "can require modules of their design document",
      ask: `GET ${url}?filter=d/library`,
      status: 200,
      has: late,
    },
    {
      name: "can read the query",
      ask: `GET ${url}?filter=d/since&year=2001`,
      status: 200,
      has: { results: [{ id: "2010" }] },
    },
    {
      name: "are accepted by POST",
      ask: `POST ${url}?filter=d/late`,
      body: {},
      status: 200,
      has: late,
    },
    {
      name: "can be map functions of views, which emit a row for each matching document",
      ask: `GET ${url}?filter=_view&view=d/late`,
      status: 200,
      has: late,
    },
    {
      name: "apply before limit and pending are computed",
      ask: `GET ${url}?filter=d/late&limit=1`,
      status: 200,
      has: { results: [{ id: "2000" }], pending: 1 },
    },
    {
      name: "can be combined with include_docs",
      ask: `GET ${url}?filter=d/late&limit=1&include_docs=true`,
      status: 200,
      has: { results: [{ id: "2000", doc: { _id: "2000", year: 2000 } }] },
    },
    {
      name: "filter a longpoll feed",
      ask: `GET ${url}?filter=d/late&feed=longpoll`,
      status: 200,
      has: late,
    },
    {
      name: "are reported as missing if their design document is missing",
      ask: `GET ${url}?filter=nope/late`,
      ...refusal(404, "not_found", "missing"),
    },
    {
      name: "are reported as missing if they do not exist",
      ask: `GET ${url}?filter=d/nope`,
      ...refusal(404, "not_found", "missing json key: nope"),
    },
    {
      name: "are reported as missing if the view is missing",
      ask: `GET ${url}?filter=_view&view=d/nope`,
      ...refusal(404, "not_found", "missing json key: nope"),
    },
    {
      name: "of the kind _view need the name of a view",
      ask: `GET ${url}?filter=_view`,
      ...refusal(400, "bad_request", "`view` filter parameter is not provided."),
    },
    {
      name: "of the kind _view need the design document in the name of the view",
      differs: "CouchDB fails with case_clause",
      ask: `GET ${url}?filter=_view&view=d`,
      ...refusal(400, "bad_request", "`view` must be of the form `designname/viewname`"),
    },
    {
      name: "are refused with a name of one part",
      ask: `GET ${url}?filter=d`,
      ...refusal(400, "bad_request", "`filter` must be of the form `designname/filtername`"),
    },
    {
      name: "are refused with a name of three parts",
      ask: `GET ${url}?filter=a/b/c`,
      ...refusal(400, "bad_request", "`filter` must be of the form `designname/filtername`"),
    },
    {
      name: "are refused with an unknown built-in name",
      ask: `GET ${url}?filter=_foo`,
      ...refusal(400, "bad_request", "unknown builtin filter name"),
    },
    {
      name: "fail if they throw",
      differs: "CouchDB reports the state of its process",
      ask: `GET ${url}?filter=d/throws`,
      ...failed("Error", "bad thing"),
    },
    {
      name: "end a continuous feed with an error if they throw",
      differs: "CouchDB reports the state of its process",
      ask: `GET ${url}?filter=d/throws&feed=continuous&timeout=10`,
      ...failed("Error", "bad thing"),
    },
    {
      name: "fail if they do not compile",
      differs: "CouchDB reports the state of its process",
      ask: `GET ${url}?filter=d/value`,
      ...failed("compilation_error", "Expression does not eval to a function. (42)"),
    },
    {
      name: "fail if they never end",
      differs: "CouchDB reports the state of its process",
      ask: `GET ${url}?filter=d/loop`,
      ...failed("os_process_error", "OS process timed out."),
    },
    {
      name: "fail if the map function of their view throws",
      differs: "CouchDB reports the state of its process",
      ask: `GET ${url}?filter=_view&view=d/broken`,
      status: 500,
      has: { error: "TypeError" },
    },
    {
      name: "receive the method, as a member of the request",
      differs: "CouchDB reports the state of its process",
      ask: `GET ${url}?filter=d/told&member=method`,
      ...failed("told", '"GET"'),
    },
    {
      name: "receive the path",
      differs: "CouchDB reports the state of its process",
      ask: `GET ${url}?filter=d/told&member=path`,
      ...failed("told", '["films","_changes"]'),
    },
    {
      name: "receive the query",
      differs: "CouchDB reports the state of its process",
      ask: `GET ${url}?filter=d/told&member=query&a=b`,
      ...failed("told", '{"filter":"d/told","member":"query","a":"b"}'),
    },
    {
      name: "receive the body",
      differs: "CouchDB reports the state of its process",
      ask: `POST ${url}?filter=d/told&member=body`,
      body: { q: 1 },
      ...failed("told", '{"q":1}'),
    },
    {
      name: "receive the headers except credentials",
      differs: "CouchDB reports the state of its process",
      ask: `GET ${url}?filter=d/told&member=headers`,
      headers: { "x-some": "z", authorization: "Basic eDp5", cookie: "AuthSession=x" },
      ...failed("told", '{"Host":"127.0.0.1:5984"}'),
    },
    {
      name: "receive no header that can contain credentials",
      onlyHere: "CouchDB shows all headers",
      ask: `GET ${url}?filter=d/told&member=headers`,
      headers: {
        accept: "*/*",
        "proxy-authorization": "Basic eDp5",
        "x-auth-couchdb-token": "0123",
        "x-forwarded-access-token": "0123",
      },
      ...failed("told", '{"Accept":"*/*","Host":"127.0.0.1:5984"}'),
    },
    {
      name: "receive the user",
      differs: "CouchDB reports the state of its process",
      ask: `GET ${url}?filter=d/told&member=userCtx`,
      ...failed("told", '{"db":"films","name":null,"roles":["_admin"]}'),
    },
    {
      name: "receive the security object",
      differs: "CouchDB reports the state of its process",
      ask: `GET ${url}?filter=d/told&member=secObj`,
      ...failed("told", '{"members":{"roles":["_admin"]},"admins":{"roles":["_admin"]}}'),
    },
    {
      name: "receive the address of the client",
      differs: "CouchDB reports the state of its process",
      ask: `GET ${url}?filter=d/told&member=peer`,
      ...failed("told", '"127.0.0.1"'),
    },
  ]);

  test("are applied to each leaf separately if the request asks for all leaves", async () => {
    const { ask } = await openYears(openFilms);
    const docs = [
      { _id: "x", _rev: "1-b", kept: false },
      { _id: "x", _rev: "1-a", kept: true },
    ];
    await ask("POST /films/_bulk_docs", { body: { new_edits: false, docs } });
    const all = await ask(`GET ${url}?filter=d/leaves&style=all_docs`);
    expect(all.json.results).toMatchObject([{ id: "x", changes: [{ rev: "1-a" }] }]);
    expect((await ask(`GET ${url}?filter=d/leaves`)).json.results).toEqual([]);
  });

  test("let a continuous feed send later changes that pass the filter", async () => {
    const { ask, stream } = await openYears(openFilms);
    const going = new AbortController();
    const feed = await stream(`GET ${url}?filter=d/late&feed=continuous&since=now`, {
      signal: going.signal,
    });
    expect((await feed.next()).value).toBe("");
    const next = feed.next();
    await ask("PUT /films/1970", { body: { year: 1970 } });
    await ask("PUT /films/2020", { body: { year: 2020 } });
    expect(JSON.parse((await next).value ?? "")).toMatchObject({ id: "2020" });
    going.abort();
    await feed.return?.();
  });
});

describe("a design document used as a filter by many feeds", () => {
  const LONG = { ...DESIGN, long: "x".repeat(1_000_000) };

  test("is read once per revision rather than once per feed", async () => {
    let readBytes = 0;
    const counting = (engine: Engine): Engine => {
      const begin = engine.begin.bind(engine);
      engine.begin = (attempt) => {
        const begun = begin(attempt);
        for (const reads of [begun.transaction, begun.transaction.snapshot]) {
          const getMany = reads.getMany.bind(reads);
          reads.getMany = async (keys) => {
            const values = await getMany(keys);
            for (const value of values) readBytes += value?.length ?? 0;
            return values;
          };
        }
        return begun;
      };
      return engine;
    };
    const { ask } = await openFilms({ wrapEngine: counting });
    const { json } = await ask("PUT /films/_design/d", { body: LONG });
    const askAll = () =>
      Promise.all(
        ["late", "library", "late"].map((name) => ask(`GET ${url}?filter=d/${name}&since=now`)),
      );
    readBytes = 0;
    for (const { status } of [...(await askAll()), ...(await askAll())]) expect(status).toBe(200);
    expect(readBytes).toBeGreaterThan(1_000_000);
    expect(readBytes).toBeLessThan(1_100_000);
    const next = { ...DESIGN, _rev: json.rev, filters: { other: DESIGN.filters.late } };
    await ask("PUT /films/_design/d", { body: next });
    expect((await ask(`GET ${url}?filter=d/other`)).status).toBe(200);
    expect(await ask(`GET ${url}?filter=d/late`)).toMatchObject(
      refusal(404, "not_found", "missing json key: late"),
    );
  });

  test("is reported as missing to users who may not read it", async () => {
    const hook: DatabaseHook = {
      appliesTo: () => true,
      afterRead: (document) => (document.id.startsWith("_design/") ? undefined : document),
    };
    let user = ADMIN;
    const authenticate = async () => user;
    const { ask } = await openFilms({ hooks: [hook], parts: { authenticate } });
    await ask("PUT /films/_security", { body: { admins: {}, members: {} } });
    await ask("PUT /films/_design/d", { body: DESIGN });
    expect((await ask(`GET ${url}?filter=d/late`)).status).toBe(200);
    user = { ...ADMIN, name: "somebody", roles: [], isAdmin: false };
    expect(await ask(`GET ${url}?filter=d/late`)).toMatchObject(
      refusal(404, "not_found", "missing"),
    );
  });
});
