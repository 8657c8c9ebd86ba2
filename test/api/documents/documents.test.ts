import { describe, expect, test } from "vitest";
import { type Asked, openFilms } from "../api.fixture.ts";
import { refusal, testRows } from "../rows.ts";

/**
 * Database `films` with a document `a` that has one leaf, and a document `b` with two leaves: the
 * winner `2-y` and the losing leaf `2-x`.
 */
async function openDocuments<Api extends Asked>(open: () => Promise<Api>): Promise<Api> {
  const api = await open();
  await api.ask("POST /films/_bulk_docs", {
    body: {
      new_edits: false,
      docs: [
        { _id: "a", _rev: "1-a", n: 1 },
        { _id: "b", _revisions: { start: 2, ids: ["x", "r"] }, v: "x" },
        { _id: "b", _revisions: { start: 2, ids: ["y", "r"] }, v: "y" },
        { _id: "gone", _revisions: { start: 2, ids: ["d", "c"] }, _deleted: true },
      ],
    },
  });
  return api;
}

describe("reading a document", () => {
  testRows(openDocuments, [
    {
      name: "returns the winner, with its revision as etag",
      ask: "GET /films/b",
      status: 200,
      json: { _id: "b", _rev: "2-y", v: "y" },
      answers: { ETag: '"2-y"' },
    },
    {
      name: "HEAD returns the revision",
      ask: "HEAD /films/b",
      status: 200,
      answers: { ETag: '"2-y"' },
    },
    {
      name: "a document is not sent to a client that has the current revision",
      ask: "GET /films/b",
      headers: { "If-None-Match": '"2-y"' },
      status: 304,
      answers: { ETag: '"2-y"' },
    },
    {
      name: "a leaf is returned by its revision",
      ask: "GET /films/b?rev=2-x",
      status: 200,
      json: { _id: "b", _rev: "2-x", v: "x" },
    },
    {
      name: "a revision without a stored body is missing",
      ask: "GET /films/b?rev=1-r",
      ...refusal(404, "not_found", "missing"),
    },
    {
      name: "latest=true returns the leaf that descends from an old revision",
      ask: "GET /films/b?rev=1-r&latest=true",
      status: 200,
      has: { _rev: "2-y" },
    },
    {
      name: "an unknown document is reported as missing",
      ask: "GET /films/nope",
      ...refusal(404, "not_found", "missing"),
    },
    {
      name: "a removed document is reported as deleted",
      ask: "GET /films/gone",
      ...refusal(404, "not_found", "deleted"),
    },
    {
      name: "a tombstone is returned by its revision",
      ask: "GET /films/gone?rev=2-d",
      status: 200,
      json: { _id: "gone", _rev: "2-d", _deleted: true },
    },
    {
      name: "ancestors are returned with revs",
      ask: "GET /films/b?revs=true",
      status: 200,
      has: { _revisions: { start: 2, ids: ["y", "r"] } },
    },
    {
      name: "meta returns statuses and conflicts, without an etag",
      ask: "GET /films/b?meta=true",
      status: 200,
      json: {
        _id: "b",
        _rev: "2-y",
        v: "y",
        _revs_info: [
          { rev: "2-y", status: "available" },
          { rev: "1-r", status: "missing" },
        ],
        _conflicts: ["2-x"],
      },
    },
    {
      name: "local_seq returns the document's update sequence, without an etag",
      ask: "GET /films/a?local_seq=true",
      status: 200,
      json: {
        _id: "a",
        _rev: "1-a",
        n: 1,
        _local_seq: expect.stringMatching(/^[0-9]+-[0-9a-f]+$/),
      },
      differs: "Its sequences are numbers of one shard.",
    },
    {
      name: "all leaves are returned with open_revs",
      differs: "CouchDB returns them in another order",
      headers: { Accept: "application/json" },
      ask: "GET /films/b?open_revs=all",
      status: 200,
      json: [{ ok: { _id: "b", _rev: "2-y", v: "y" } }, { ok: { _id: "b", _rev: "2-x", v: "x" } }],
    },
    {
      name: "missing revisions are reported with open_revs",
      headers: { Accept: "application/json" },
      ask: 'GET /films/b?open_revs=["2-x","9-z"]&revs=true',
      status: 200,
      json: [
        { ok: { _id: "b", _rev: "2-x", v: "x", _revisions: { start: 2, ids: ["x", "r"] } } },
        { missing: "9-z" },
      ],
    },
    {
      name: "latest=true returns each leaf once",
      differs: "CouchDB returns them in another order",
      headers: { Accept: "application/json" },
      ask: 'GET /films/b?open_revs=["1-r","2-y"]&latest=true',
      status: 200,
      json: [{ ok: { _id: "b", _rev: "2-y", v: "y" } }, { ok: { _id: "b", _rev: "2-x", v: "x" } }],
    },
    {
      name: "leaves of an unknown document are missing",
      ask: "GET /films/nope?open_revs=all",
      ...refusal(404, "not_found", "missing"),
    },
    {
      name: "an invalid revision is refused",
      ask: "GET /films/b?rev=x",
      ...refusal(400, "bad_request", "Invalid rev format"),
    },
    {
      name: "an invalid list of revisions is refused",
      differs: "Tandem names the parameter",
      ask: "GET /films/b?open_revs=x",
      ...refusal(400, "bad_request", "open_revs must be valid JSON"),
    },
    {
      name: "a list of revisions that are not strings is refused",
      differs: "Tandem names the parameter",
      ask: "GET /films/b?atts_since=[1]",
      ...refusal(400, "bad_request", "atts_since must be a JSON array of strings"),
    },
    {
      name: "a flag with a value other than true is ignored",
      ask: "GET /films/b?revs=maybe",
      status: 200,
      json: { _id: "b", _rev: "2-y", v: "y" },
    },
    {
      name: "an id with a leading underscore is reserved, and reported as missing",
      ask: "GET /films/_b",
      ...refusal(404, "not_found", "missing"),
    },
    {
      name: "an id that is too long is missing",
      ask: `GET /films/${"x".repeat(7_000)}`,
      ...refusal(404, "not_found", "missing"),
    },
    {
      name: "an attachment of a reserved id is missing",
      ask: "GET /films/_b/x",
      ...refusal(404, "not_found", "missing"),
    },
    {
      name: "the prefix of design documents is not an id",
      ask: "GET /films/_design",
      ...refusal(404, "not_found", "missing"),
    },
    {
      name: "a reserved id cannot be deleted",
      ask: "DELETE /films/_b",
      ...refusal(404, "not_found", "missing"),
    },
    {
      name: "reports a missing database",
      ask: "GET /nope/a",
      ...refusal(404, "not_found", "Database does not exist."),
    },
  ]);
});

describe("writing a document", () => {
  test("creates, changes and removes a document", async () => {
    const { ask } = await openFilms();
    const made = await ask("PUT /films/a", { body: { n: 1 } });
    const first = made.json.rev;
    expect(made).toMatchObject({
      status: 201,
      json: { ok: true, id: "a", rev: expect.stringMatching(/^1-[0-9a-f]{32}$/) },
      headers: { ETag: `"${first}"`, Location: "http://127.0.0.1:5984/films/a" },
    });
    const changed = await ask(`PUT /films/a?rev=${first}`, { body: { n: 2 } });
    const second = changed.json.rev;
    expect(changed.status).toBe(201);
    const removed = await ask("DELETE /films/a", { headers: { "If-Match": `"${second}"` } });
    expect(removed).toMatchObject({ status: 200, json: { rev: expect.stringMatching(/^3-/) } });
    expect((await ask("GET /films/a")).json).toEqual({ error: "not_found", reason: "deleted" });
    expect((await ask("PUT /films/a", { body: {} })).json.rev).toMatch(/^4-/);
  });

  test("a PUT that deletes a document returns status 200", async () => {
    const { ask } = await openFilms();
    const { rev } = (await ask("PUT /films/a", { body: {} })).json;
    const removed = await ask("PUT /films/a", { body: { _rev: rev, _deleted: true } });
    expect(removed).toMatchObject({ status: 200, json: { ok: true, id: "a" } });
  });

  test("POST generates an id unless the body contains one", async () => {
    const { ask } = await openFilms();
    const drawn = await ask("POST /films", { body: {} });
    expect(drawn).toMatchObject({
      status: 201,
      json: { id: expect.stringMatching(/^[0-9a-f]{32}$/) },
    });
    expect(drawn.headers.ETag).toBeUndefined();
    expect((await ask("POST /films", { body: { _id: "x y" } })).headers.Location).toBe(
      "http://127.0.0.1:5984/films/x%20y",
    );
  });

  test("COPY copies the document's body and attachments", async () => {
    const { ask } = await openFilms();
    const data = Buffer.from("abc").toString("base64");
    const _attachments = { x: { content_type: "a/b", data } };
    await ask("PUT /films/a", { body: { n: 1, _attachments } });
    const copied = await ask("COPY /films/a", { headers: { Destination: "b%2Fc" } });
    expect(copied).toMatchObject({ status: 201, json: { ok: true, id: "b/c" } });
    expect((await ask("GET /films/b%2Fc")).json).toMatchObject({ n: 1 });
    expect((await ask("GET /films/b%2Fc/x")).text).toBe("abc");
    const again = await ask("COPY /films/a", { headers: { Destination: "b%2Fc" } });
    expect(again.status).toBe(409);
    const destination = `b%2Fc?rev=${copied.json.rev}`;
    expect((await ask("COPY /films/a", { headers: { Destination: destination } })).status).toBe(
      201,
    );
  });

  test("COPY accepts an unescaped or percent-encoded target id", async () => {
    const { ask } = await openFilms();
    await ask("PUT /films/a", { body: { n: 1 } });
    const copy = async (destination: string) =>
      (await ask("COPY /films/a", { headers: { Destination: destination } })).json.id;
    // Node.js decodes header bytes as Latin-1.
    const received = (text: string) => Buffer.from(text).toString("latin1");
    expect(await copy(received("b\u00e9\u4e2d"))).toBe("b\u00e9\u4e2d");
    expect(await copy(encodeURIComponent("c\u00e9\u4e2d"))).toBe("c\u00e9\u4e2d");
    // Bytes that are not valid UTF-8 are left unchanged.
    expect(await copy("d\u00e9")).toBe("d\u00e9");
  });

  testRows(openDocuments, [
    {
      name: "a PUT with a revision of a missing document is a conflict",
      differs: "CouchDB writes it, unless its shard is empty or a validation function exists",
      ask: "PUT /films/c?rev=1-a",
      body: {},
      ...refusal(409, "conflict", "Document update conflict."),
    },
  ]);

  test("an empty revision in the query is refused rather than ignored", async () => {
    const { ask } = await openFilms();
    await ask("PUT /films/a", { body: {} });
    const invalid = { status: 400, json: { error: "bad_request", reason: "Invalid rev format" } };
    expect(await ask("GET /films/a?rev=")).toMatchObject(invalid);
    expect(await ask("PUT /films/b?rev=", { body: {} })).toMatchObject(invalid);
    expect(await ask("DELETE /films/a?rev=")).toMatchObject(invalid);
  });

  test.each([null, "", 5, {}])("every kind of write refuses a `_rev` that is %j", async (_rev) => {
    const { ask } = await openFilms();
    const { json } = await ask("PUT /films/deleted", { body: {} });
    await ask(`DELETE /films/deleted?rev=${json.rev}`);
    const refusal = { error: "bad_request", reason: "Invalid rev format" };
    for (const _id of ["new", "deleted", "_local/new"]) {
      const writes: [request: string, body: object][] = [
        [`PUT /films/${_id}`, { _rev }],
        ["POST /films", { _id, _rev }],
        ["POST /films/_bulk_docs", { docs: [{ _id, _rev }, { _id: "other" }] }],
        [`PUT /films/${_id}`, { _rev, _deleted: true }],
      ];
      for (const [request, body] of writes) {
        expect(await ask(request, { body }), request).toMatchObject({
          status: 400,
          json: refusal,
        });
      }
      expect((await ask(`GET /films/${_id}`)).status).toBe(404);
    }
    expect((await ask("GET /films/other")).status).toBe(404);
  });

  test.each(["?rev=x", "?rev=", "?rev=1", ""])(
    "deleting a missing document answers 404, even if the revision parameter is %j",
    async (query) => {
      const { ask } = await openFilms();
      const { json } = await ask("PUT /films/deleted", { body: {} });
      await ask(`DELETE /films/deleted?rev=${json.rev}`);
      for (const [id, reason] of [
        ["missing", "missing"],
        ["deleted", "deleted"],
      ]) {
        const answer = await ask(`DELETE /films/${id}${query}`);
        expect(answer).toMatchObject({ status: 404, json: { error: "not_found", reason } });
      }
    },
  );

  test("a write with a revision fails with a conflict if the document does not exist", async () => {
    const { ask } = await openFilms();
    await ask("PUT /films/there", { body: { _attachments: { x: { data: "" } } } });
    await ask("PUT /films/purged", { body: {} });
    const { _rev: rev } = (await ask("GET /films/purged")).json;
    await ask("POST /films/_purge", { body: { purged: [rev] } });
    const related = [
      "--cut",
      "Content-Type: application/json",
      "",
      JSON.stringify({ _rev: "1-x", _attachments: { y: { follows: true, length: 1 } } }),
      "--cut",
      "",
      "y",
      "--cut--",
    ].join("\r\n");
    const writes: [request: string, options: Parameters<typeof ask>[1]][] = [
      ["PUT /films/a", { body: { _rev: "1-x" } }],
      ["PUT /films/a?rev=1-x", { body: {} }],
      ["PUT /films/a?rev=3-abc&batch=ok", { body: {} }],
      ["PUT /films/a", { body: {}, headers: { "If-Match": '"1-x"' } }],
      ["PUT /films/a", { body: { _rev: "1-x", _deleted: true } }],
      ["PUT /films/purged", { body: { _rev: rev } }],
      ["POST /films", { body: { _id: "a", _rev: "1-x" } }],
      ["PUT /films/a/x?rev=1-x", { body: "y" }],
      ["PUT /films/a/x", { body: "y", headers: { "If-Match": '"1-x"' } }],
      ["PUT /films/a", { body: { _rev: "1-x", _attachments: { x: { data: "" } } } }],
      [
        "PUT /films/a",
        { body: related, headers: { "Content-Type": 'multipart/related; boundary="cut"' } },
      ],
      ["COPY /films/there", { headers: { Destination: "a?rev=1-x" } }],
      ["PUT /films/_design/a", { body: { _rev: "1-x" } }],
      ["PUT /films/_local/a", { body: { _rev: "0-1" } }],
      ["PUT /films/_local/a?rev=0-1", { body: {} }],
    ];
    for (const [request, options] of writes) {
      const answer = await ask(request, options);
      // With `batch=ok` CouchDB reports no conflict.
      if (request.includes("batch=ok")) expect(answer.status, request).toBe(202);
      else expect(answer.status, request).toBe(409);
    }
    const removals = [
      ["a?rev=1-x", 404],
      ["a/x?rev=1-x", 409],
      ["_local/a?rev=0-1", 404],
    ] as const;
    for (const [path, status] of removals) {
      expect((await ask(`DELETE /films/${path}`)).status, path).toBe(status);
    }
    const docs = ["a", "a", "_design/a", "_local/a"].map((_id) => ({ _id, _rev: "0-7" }));
    const { json: rows } = await ask("POST /films/_bulk_docs", { body: { docs } });
    expect(rows).toMatchObject(docs.map(({ _id }) => ({ id: _id, error: "conflict" })));
    for (const id of ["a", "purged", "_design/a", "_local/a"]) {
      expect((await ask(`GET /films/${id}`)).status, id).toBe(404);
    }
    const asked = { a: ["1-x", "3-abc", "0-7"] };
    expect((await ask("POST /films/_revs_diff", { body: asked })).json).toMatchObject({
      a: { missing: asked.a },
    });
  });

  describe("is refused", () => {
    const conflict = refusal(409, "conflict", "Document update conflict.");
    testRows(openDocuments, [
      { name: "without a revision", ask: "PUT /films/a", body: {}, ...conflict },
      { name: "with an old revision", ask: "PUT /films/b?rev=1-r", body: {}, ...conflict },
      { name: "if it is a deletion without a revision", ask: "DELETE /films/a", ...conflict },
      {
        name: "if it is a deletion of a missing document",
        ask: "DELETE /films/nope?rev=1-a",
        ...refusal(404, "not_found", "missing"),
      },
      {
        name: "if the query and the body contain different revisions",
        ask: "PUT /films/a?rev=1-b",
        body: { _rev: "1-a" },
        ...refusal(
          400,
          "bad_request",
          "Document rev from request body and query string have different values",
        ),
      },
      {
        name: "if the revision differs from the If-Match header",
        ask: "PUT /films/a",
        headers: { "If-Match": '"1-b"' },
        body: { _rev: "1-a" },
        ...refusal(400, "bad_request", "Document rev and etag have different values"),
      },
      {
        name: "with an invalid revision",
        ask: "PUT /films/a",
        body: { _rev: "x" },
        ...refusal(400, "bad_request", "Invalid rev format"),
      },
      {
        name: "with a truncated body",
        ask: "PUT /films/a",
        body: '{"a":',
        ...refusal(400, "bad_request", "invalid UTF-8 JSON"),
      },
      {
        name: "with a body that is not UTF-8",
        ask: "PUT /films/a",
        body: Buffer.from([0x22, 0xff, 0x22]),
        ...refusal(400, "bad_request", "invalid UTF-8 JSON"),
      },
      {
        name: "if the body is empty",
        ask: "PUT /films/a",
        ...refusal(400, "bad_request", "invalid UTF-8 JSON"),
      },
      {
        name: "if the body is a list",
        ask: "PUT /films/a",
        body: [],
        ...refusal(400, "bad_request", "Document must be a JSON object"),
      },
      {
        name: "with a member that begins with an underscore",
        ask: "PUT /films/c",
        body: { _nosuch: 1 },
        ...refusal(400, "doc_validation", "Bad special document member: _nosuch"),
      },
      {
        name: "with __proto__ at the top level",
        ask: "PUT /films/c",
        body: '{"__proto__":1}',
        ...refusal(400, "doc_validation", "Bad special document member: __proto__"),
      },
      {
        name: "with a deletion flag that is not a boolean",
        differs: "Tandem reports what is accepted",
        ask: "PUT /films/c",
        body: { _deleted: "yes" },
        ...refusal(400, "bad_request", "_deleted must be a boolean"),
      },
      {
        name: "with a reserved id",
        ask: "PUT /films/_c",
        body: {},
        ...refusal(400, "illegal_docid", "Only reserved document ids may start with underscore."),
      },
      {
        name: "with an id that is not a string",
        ask: "POST /films",
        body: { _id: 1 },
        ...refusal(400, "illegal_docid", "Document id must be a string"),
      },
      {
        name: "without the JSON content type where CouchDB requires it",
        ask: "POST /films",
        body: "{}",
        headers: { "Content-Type": "text/plain" },
        ...refusal(415, "bad_content_type", "Content-Type must be application/json"),
      },
      {
        name: "with a stub that refers to a missing attachment",
        ask: "PUT /films/c",
        body: { _attachments: { x: { stub: true } } },
        ...refusal(412, "missing_stub", "Invalid attachment stub in c for x"),
      },
      {
        name: "with a stub that refers to a missing attachment and a revision of a missing document",
        ask: "PUT /films/c",
        body: {
          _rev: "1-967a00dff5e02add41819138abb3284d",
          _attachments: { x: { stub: true } },
        },
        ...refusal(412, "missing_stub", "Invalid attachment stub in c for x"),
      },
      {
        name: "with data that is not base64",
        ask: "PUT /films/c",
        body: { _attachments: { x: { data: "???" } } },
        ...refusal(400, "bad_request", "Invalid attachment data for x"),
      },
      {
        name: "with base64 data without padding",
        ask: "PUT /films/c",
        body: { _attachments: { x: { data: "SGVsbG8" } } },
        ...refusal(400, "bad_request", "Invalid attachment data for x"),
      },
      {
        name: "with base64 data that has too much padding",
        ask: "PUT /films/c",
        body: { _attachments: { x: { data: "SGVsbG8==" } } },
        ...refusal(400, "bad_request", "Invalid attachment data for x"),
      },
      {
        name: "with data in the URL-safe base64 alphabet",
        ask: "PUT /films/c",
        body: { _attachments: { x: { data: "SGVsbG8-_w==" } } },
        ...refusal(400, "bad_request", "Invalid attachment data for x"),
      },
      {
        name: "with an attachment whose announced part is missing",
        differs: "CouchDB fails with function_clause",
        ask: "PUT /films/c",
        body: { _attachments: { x: { follows: true } } },
        ...refusal(
          400,
          "bad_request",
          'Attachment "x" has the member `follows`, but the request is not multipart/related',
        ),
      },
      {
        name: "if it exceeds the maximum size of a document",
        differs: "Tandem names the document",
        ask: "PUT /films/c",
        body: { text: "x".repeat(8 * 1024 * 1024) },
        ...refusal(413, "document_too_large", "c"),
      },
      {
        name: "if it is replicated without a revision",
        differs: "Tandem does not name a parameter that the client may not have set",
        ask: "PUT /films/c?new_edits=false",
        body: {},
        ...refusal(400, "bad_request", "A replicated document must have _rev or _revisions"),
      },
      {
        name: "if it is a COPY without a destination",
        ask: "COPY /films/a",
        ...refusal(400, "bad_request", "Destination header is mandatory for COPY."),
      },
    ]);
  });
});

describe("a document is returned exactly as it was stored", () => {
  const NUMBERS =
    '{"big":12345678901234567890,"one":1.0,"exp":1e2,"minus":-0,"tail":0.1000,"list":[1.0,-0, 1E+2]}';
  const NAMES = '{"a":{"__proto__":{"x":1.0},"constructor":null,"_id":"nested"},"b":"\\u00e9\\/"}';

  test.each([NUMBERS, NAMES])("%s", async (body) => {
    const { ask } = await openFilms();
    const inner = body.slice(1, -1).trim();
    await ask("PUT /films/a", { body });
    expect((await ask("GET /films/a")).text).toContain(inner);
    const { text } = await ask("GET /films/a?revs=true");
    await ask("POST /films/_bulk_docs", {
      body: `{"new_edits":false,"docs":[${text.replace('"_id":"a"', '"_id":"c"')}]}`,
    });
    for (const request of [
      "GET /films/c",
      "GET /films/_all_docs?include_docs=true",
      "GET /films/_changes?include_docs=true",
      'GET /films/_changes?include_docs=true&filter=_selector&selector={"_id":"c"}',
    ]) {
      expect((await ask(request)).text).toContain(inner);
    }
    const bulk = await ask("POST /films/_bulk_get", { body: { docs: [{ id: "c" }] } });
    expect(bulk.text).toContain(inner);
  });
});

describe("ids", () => {
  const ODD_IDS = [
    "simple",
    "with space",
    "a/b",
    "a//b/",
    "ü€😀",
    "%2F",
    "a%b",
    "a+b",
    "a?b=c&d",
    "#hash",
    '"quoted"',
    "back\\slash",
    "line\nbreak",
    "tab\t",
    "nul\u0000",
    ";:@,$!'()*~",
    ".",
    "../..",
    "__proto__x".slice(2),
    "constructor",
    "\ufeffbom",
    "\uffff",
    "_design/a/b ü",
    "x".repeat(500),
  ];

  test("every unusual character in an id is preserved in paths, bodies and lists", async () => {
    const { ask } = await openFilms();
    for (const id of ODD_IDS) {
      const path = `/films/${encodeURIComponent(id)}`;
      const written = await ask(`PUT ${path}`, { body: { id } });
      expect(written).toMatchObject({ status: 201, json: { id } });
      expect((await ask(`GET ${path}`)).json).toMatchObject({ _id: id, id });
    }
    const sorted = [...ODD_IDS].sort((left, right) =>
      Buffer.compare(Buffer.from(left), Buffer.from(right)),
    );
    const listed = (await ask("GET /films/_all_docs")).json.rows;
    expect(listed.map((row: { id: string }) => row.id)).toEqual(sorted);
    const keys = await ask("POST /films/_all_docs", { body: { keys: ODD_IDS } });
    expect(keys.json.rows.map((row: { id: string }) => row.id)).toEqual(ODD_IDS);
    const changes = (await ask("GET /films/_changes")).json.results;
    expect(changes.map((row: { id: string }) => row.id)).toEqual(ODD_IDS);
    const asked = Object.fromEntries(ODD_IDS.map((id) => [id, ["9-z"]]));
    const missing = (await ask("POST /films/_revs_diff", { body: asked })).json;
    expect(Object.keys(missing).sort()).toEqual([...ODD_IDS].sort());
  });

  test("a plus in a path means a space, and an invalid escape is left unchanged", async () => {
    const { ask } = await openFilms();
    expect((await ask("PUT /films/a+b%zz", { body: {} })).json.id).toBe("a b%zz");
  });

  test("a design document has the same id whether or not the slash in the path is encoded", async () => {
    const { ask } = await openFilms();
    await ask("PUT /films/_design/a", { body: { x: 1 } });
    expect((await ask("GET /films/_design%2Fa")).json).toMatchObject({ _id: "_design/a", x: 1 });
    expect((await ask("PUT /films/_design%2Fa", { body: {} })).status).toBe(409);
  });
});

test.each([
  "GET /films/b?revs=1&latest=1&conflicts=yes&attachments=maybe&meta=0&local_seq=&revs_info=t",
  "GET /films/_changes?include_docs=1&conflicts=1&descending=1&attachments=1&att_encoding_info=1",
])("a flag whose value is not true is ignored: %s", async (request) => {
  const { ask } = await openFilms();
  await ask("PUT /films/b", { body: {} });
  const [plain] = request.split("?") as [string];
  const { status, text } = await ask(request);
  expect([status, text]).toEqual([200, (await ask(plain)).text]);
});
