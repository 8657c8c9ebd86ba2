import { createHash, randomBytes } from "node:crypto";
import { gunzipSync, gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import type { Engine } from "../../../src/kv/index.ts";
import { type Asked, openFilms, SETTINGS } from "../api.fixture.ts";
import { FILMS, refusal, testRows } from "../rows.ts";

function md5(bytes: Uint8Array): string {
  return createHash("md5").update(bytes).digest("base64");
}

const DIGITS = { body: "0123456789", headers: { "Content-Type": "image/png" } };

/** Opens the API with a document `a` that has an attachment `digits`. */
async function openDigits<Api extends Asked>(open: () => Promise<Api>): Promise<Api> {
  const api = await open();
  await api.ask("PUT /films/a/digits", DIGITS);
  return api;
}

/** Returns a multipart/related body: the document, then the bodies of its attachments. */
function related(document: unknown, bodies: readonly Uint8Array[]) {
  const pieces: Uint8Array[] = [];
  const part = (headers: string, body: Uint8Array): void => {
    pieces.push(Buffer.from(`--cut\r\n${headers}\r\n`), body, Buffer.from("\r\n"));
  };
  part("Content-Type: application/json\r\n", Buffer.from(JSON.stringify(document)));
  for (const body of bodies) part("", body);
  pieces.push(Buffer.from("--cut--"));
  return {
    body: Buffer.concat(pieces),
    headers: { "Content-Type": 'multipart/related; boundary="cut"' },
  };
}

describe("an attachment", () => {
  test("is written, read, replaced and removed", async () => {
    const { ask } = await openFilms();
    const written = await ask("PUT /films/a/digits", DIGITS);
    expect(written).toMatchObject({
      status: 201,
      json: { ok: true, id: "a", rev: expect.stringMatching(/^1-/) },
      headers: { Location: "http://127.0.0.1:5984/films/a/digits" },
    });
    const digest = md5(Buffer.from("0123456789"));
    const read = await ask("GET /films/a/digits");
    expect(read.text).toBe("0123456789");
    expect(read.headers).toMatchObject({
      "Accept-Ranges": "bytes",
      "Content-Length": "10",
      "Content-MD5": digest,
      "Content-Security-Policy": "sandbox",
      "Content-Type": "image/png",
      ETag: `"${digest}"`,
    });
    const replaced = await ask(`PUT /films/a/digits?rev=${written.json.rev}`, {
      body: "abc",
      headers: { "Content-Type": "image/gif" },
    });
    expect((await ask("GET /films/a")).json._attachments).toEqual({
      digits: {
        content_type: "image/gif",
        revpos: 2,
        digest: `md5-${md5(Buffer.from("abc"))}`,
        length: 3,
        stub: true,
      },
    });
    const removed = await ask("DELETE /films/a/digits", {
      headers: { "If-Match": replaced.json.rev },
    });
    expect(removed).toMatchObject({ status: 200, json: { rev: expect.stringMatching(/^3-/) } });
    expect((await ask("GET /films/a")).json._attachments).toBeUndefined();
    expect((await ask("GET /films/a/digits")).json.reason).toBe("Document is missing attachment");
  });

  test("is added next to existing attachments, and leaves the document's body unchanged", async () => {
    const { ask } = await openFilms();
    const { rev } = (await ask("PUT /films/a", { body: '{"n":1.0}' })).json;
    const first = await ask(`PUT /films/a/one?rev=${rev}`, DIGITS);
    await ask(`PUT /films/a/two?rev=${first.json.rev}`, DIGITS);
    const { text, json } = await ask("GET /films/a");
    expect(text).toContain('"n":1.0');
    expect(Object.keys(json._attachments)).toEqual(["one", "two"]);
    expect(json._attachments.one.revpos).toBe(2);
  });

  test("has a revpos equal to the generation of the replicated revision that added it", async () => {
    const api = await openFilms();
    const [first, second, third] = ["a", "b", "c"].map((digit) => digit.repeat(32));
    const body = {
      _rev: `3-${third}`,
      _revisions: { start: 3, ids: [third, second, first] },
      _attachments: { one: { content_type: "text/plain", data: "b25l" } },
    };
    const { status } = await api.ask("PUT /films/copied?new_edits=false", { body });
    expect(status).toBe(201);
    const { json } = await api.ask("GET /films/copied");
    expect(json._attachments.one.revpos).toBe(3);
  });

  test.each([
    "a/b",
    "with space",
    "ü€😀",
    "%2F",
    "a+b",
    '"quoted"',
    "#?&",
    "_x".slice(1),
    "line\nbreak",
  ])("can be named %j", async (name) => {
    const { ask } = await openFilms();
    const path = `/films/a/${encodeURIComponent(name)}`;
    await ask(`PUT ${path}`, DIGITS);
    expect((await ask(`GET ${path}`)).text).toBe("0123456789");
    expect(Object.keys((await ask("GET /films/a")).json._attachments)).toEqual([name]);
    const multipart = await ask("GET /films/a?attachments=true", {
      headers: { Accept: "multipart/related" },
    });
    expect(multipart.text).toContain("\r\n\r\n0123456789\r\n--");
  });

  test("can belong to a design document", async () => {
    const { ask } = await openFilms();
    await ask("PUT /films/_design/x/a/b", DIGITS);
    expect((await ask("GET /films/_design/x/a/b")).text).toBe("0123456789");
    expect((await ask("GET /films/_design%2Fx/a%2Fb")).text).toBe("0123456789");
  });

  test("is stored compressed if it is text, and is sent in an encoding that the client accepts", async () => {
    const { ask } = await openFilms();
    const text = "hello world ".repeat(100);
    await ask("PUT /films/a/t", { body: text, headers: { "Content-Type": "text/plain" } });
    const plain = await ask("GET /films/a/t");
    expect(plain.text).toBe(text);
    expect(plain.headers).toMatchObject({ "Accept-Ranges": "none", "Content-Length": "1200" });
    expect(plain.headers["Content-Encoding"]).toBeUndefined();
    const packed = await ask("GET /films/a/t", { headers: { "Accept-Encoding": "gzip, br" } });
    expect(packed.headers).toMatchObject({
      "Content-Encoding": "gzip",
      "Content-MD5": md5(packed.bytes),
    });
    expect(gunzipSync(packed.bytes).toString()).toBe(text);
    const refused = await ask("GET /films/a/t", { headers: { "Accept-Encoding": "gzip;q=0" } });
    expect(refused.text).toBe(text);
    const stub = (await ask("GET /films/a?att_encoding_info=true")).json._attachments.t;
    expect(stub).toMatchObject({
      encoding: "gzip",
      encoded_length: packed.bytes.length,
      length: 1200,
    });
  });

  test("is stored compressed if the configuration lists its content type", async () => {
    const compressibleTypes = ["image/svg+xml", "application/*json"];
    const { ask } = await openFilms({ parts: { settings: { ...SETTINGS, compressibleTypes } } });
    const encodingOf = async (type: string): Promise<string | undefined> => {
      const id = encodeURIComponent(type);
      await ask(`PUT /films/${id}/t`, { body: "text", headers: { "Content-Type": type } });
      const { json } = await ask(`GET /films/${id}?att_encoding_info=true`);
      return json._attachments.t.encoding;
    };
    expect(await encodingOf("image/svg+xml; charset=utf-8")).toBe("gzip");
    expect(await encodingOf("APPLICATION/ld+json")).toBe("gzip");
    expect(await encodingOf("image/svgxxml")).toBeUndefined();
    expect(await encodingOf("text/plain")).toBeUndefined();
  });

  test("is not stored compressed if the compression level is 0", async () => {
    const settings = { ...SETTINGS, compressionLevel: 0 };
    const { ask } = await openFilms({ parts: { settings } });
    await ask("PUT /films/a/t", { body: "text", headers: { "Content-Type": "text/plain" } });
    const { json } = await ask("GET /films/a?att_encoding_info=true");
    expect(json._attachments.t).not.toHaveProperty("encoding");
  });

  test("stays compressed if the client uploads it compressed", async () => {
    const { ask } = await openFilms();
    const bytes = gzipSync("hello");
    await ask("PUT /films/a/t", {
      body: bytes,
      headers: { "Content-Type": "image/svg+xml", "Content-Encoding": "gzip" },
    });
    expect((await ask("GET /films/a/t")).text).toBe("hello");
    const packed = await ask("GET /films/a/t", { headers: { "Accept-Encoding": "gzip" } });
    expect(packed.bytes.equals(bytes)).toBe(true);
    // Encoding names are case-insensitive (RFC 9110).
    await ask("PUT /films/b/t", { body: bytes, headers: { "Content-Encoding": "GZIP" } });
    expect((await ask("GET /films/b/t")).text).toBe("hello");
  });

  test("of one megabyte is returned byte for byte in every encoding", async () => {
    const { ask } = await openFilms();
    const bytes = randomBytes(1_300_000);
    await ask("PUT /films/a/big", {
      body: bytes,
      headers: { "Content-MD5": md5(bytes), "Content-Type": "image/png" },
    });
    expect((await ask("GET /films/a/big")).bytes.equals(bytes)).toBe(true);
    const inline = (await ask("GET /films/a?attachments=true")).json._attachments.big.data;
    expect(Buffer.from(inline, "base64").equals(bytes)).toBe(true);
    const middle = { Range: "bytes=600000-699999" };
    const range = await ask("GET /films/a/big", { headers: middle });
    expect(range.bytes.equals(bytes.subarray(600_000, 700_000))).toBe(true);
  });

  test("can be empty", async () => {
    const { ask } = await openFilms();
    await ask("PUT /films/a/empty", { body: "" });
    expect(await ask("GET /films/a/empty")).toMatchObject({
      status: 200,
      text: "",
      headers: { "Content-Length": "0", "Content-Type": "application/json" },
    });
  });

  test("is sent even if its content type would be invalid in a header", async () => {
    const { ask } = await openFilms();
    const _attachments = { x: { content_type: "a\nb: ☃", data: "YWJj" } };
    await ask("PUT /films/a", { body: { _attachments } });
    expect((await ask("GET /films/a/x")).headers["Content-Type"]).toBe("a%0Ab: %E2%98%83");
    expect((await ask("GET /films/a")).json._attachments.x.content_type).toBe("a\nb: ☃");
  });

  testRows(openDigits, [
    {
      name: "answers HEAD with its length",
      ask: "HEAD /films/a/digits",
      status: 200,
      answers: { "Content-Length": "10" },
    },
    {
      name: "is not sent to a client that has the current version",
      ask: "GET /films/a/digits",
      headers: { "If-None-Match": `"${md5(Buffer.from("0123456789"))}"` },
      status: 304,
    },
    {
      name: "is sent in part for a range",
      ask: "GET /films/a/digits",
      headers: { Range: "bytes=2-4" },
      status: 206,
      answers: { "Content-Range": "bytes 2-4/10", "Content-Length": "3" },
    },
    {
      name: "is sent from the start of a range without an end",
      ask: "GET /films/a/digits",
      headers: { Range: "bytes=2-" },
      status: 206,
      answers: { "Content-Range": "bytes 2-9/10" },
    },
    {
      name: "is sent completely for a range that begins at the first byte and has no end",
      ask: "GET /films/a/digits",
      headers: { Range: "bytes=0-" },
      status: 200,
      answers: { "Content-Length": "10" },
    },
    {
      name: "is sent up to its end for a range that ends later",
      ask: "GET /films/a/digits",
      headers: { Range: "bytes=-3" },
      status: 206,
      answers: { "Content-Range": "bytes 7-9/10" },
    },
    {
      name: "refuses a range after its end",
      ask: "GET /films/a/digits",
      headers: { Range: "bytes=10-" },
      ...refusal(416, "requested_range_not_satisfiable", "Requested range not satisfiable"),
    },
    {
      name: "is sent completely if a request has several ranges",
      differs: "CouchDB joins them",
      ask: "GET /films/a/digits",
      headers: { Range: "bytes=1-2,4-5" },
      status: 200,
    },
    { name: "is refused without the revision", ask: "PUT /films/a/other", ...DIGITS, status: 409 },
    {
      name: "is refused with a wrong revision",
      ask: "PUT /films/a/other?rev=1-x",
      ...DIGITS,
      ...refusal(409, "not_found", "missing_rev"),
    },
    {
      name: "is not removed with a wrong revision",
      ask: "DELETE /films/a/digits?rev=1-x",
      ...refusal(409, "not_found", "missing_rev"),
    },
    { name: "is not removed without the revision", ask: "DELETE /films/a/digits", status: 409 },
    {
      name: "that the document lacks is not removed",
      ask: "DELETE /films/a/none",
      ...refusal(404, "not_found", "Document is missing attachment"),
    },
    {
      name: "is not removed from a missing document",
      ask: "DELETE /films/b/x",
      ...refusal(404, "not_found", "missing"),
    },
    {
      name: "is not removed from a revision of a missing document",
      ask: "DELETE /films/b/x?rev=1-967a00dff5e02add41819138abb3284d",
      ...refusal(409, "not_found", "missing_rev"),
    },
    {
      name: "is not removed if the revision is invalid",
      ask: "DELETE /films/b/x?rev=x",
      ...refusal(400, "bad_request", "Invalid rev format"),
    },
    {
      name: "of a missing document is reported as missing",
      ask: "GET /films/b/x",
      ...refusal(404, "not_found", "missing"),
    },
    {
      name: "is refused in an unknown encoding",
      ask: "PUT /films/b/x",
      body: "x",
      headers: { "Content-Encoding": "br" },
      ...refusal(415, "bad_content_type", "Only gzip and identity content-encodings are supported"),
    },
    {
      name: "is refused if it is declared as gzip but is not",
      differs: "CouchDB stores invalid compressed data",
      ask: "PUT /films/b/x",
      body: "x",
      headers: { "Content-Encoding": "gzip" },
      status: 400,
    },
    {
      name: "is refused if its digest differs from the declared one",
      differs: "CouchDB checks digests of standalone attachments only in trailers",
      ask: "PUT /films/b/x",
      body: "x",
      headers: { "Content-MD5": md5(Buffer.from("y")) },
      ...refusal(400, "content_md5_mismatch", "Possible message corruption."),
    },
    {
      name: "is refused if its length differs from the declared one",
      differs: "CouchDB does not verify it",
      ask: "PUT /films/b/x",
      body: "x",
      headers: { "Content-Length": "2" },
      status: 400,
    },
    {
      name: "is refused with a reserved name",
      ask: "PUT /films/b/_x",
      body: "x",
      ...refusal(400, "bad_request", "Attachment name '_x' starts with prohibited character '_'"),
    },
  ]);
});

describe("multipart/related", () => {
  const first = randomBytes(200_000);
  const second = Buffer.from("second");
  const follows = (bytes: Uint8Array, more: object = {}) => ({
    follows: true,
    content_type: "image/png",
    length: bytes.length,
    digest: `md5-${md5(bytes)}`,
    ...more,
  });

  test("assigns parts to attachments in the order in which the JSON text names the attachments", async () => {
    const { ask } = await openFilms();
    // A JavaScript object would move the numeric name to the front.
    const json = `{"n":1.0,"_attachments":{"b":${JSON.stringify(follows(first))},"1":${JSON.stringify(follows(second))}}}`;
    const upload = related(null, [first, second]);
    const body = Buffer.from(upload.body.toString("latin1").replace("null", json), "latin1");
    const written = await ask("PUT /films/a", { ...upload, body });
    expect(written.status).toBe(201);
    expect((await ask("GET /films/a/b")).bytes.equals(first)).toBe(true);
    expect((await ask("GET /films/a/1")).bytes.equals(second)).toBe(true);
    expect((await ask("GET /films/a")).text).toContain('"n":1.0');
  });

  test("writes hundreds of small parts in a few transactions", async () => {
    let commitCount = 0;
    const counting = (engine: Engine): Engine => {
      const begin = engine.begin.bind(engine);
      engine.begin = (attempt) => {
        const begun = begin(attempt);
        const commit = begun.commit.bind(begun);
        begun.commit = () => {
          commitCount++;
          return commit();
        };
        return begun;
      };
      return engine;
    };
    const { ask } = await openFilms({ wrapEngine: counting });
    const bodies = Array.from({ length: 300 }, (_, at) => Buffer.from(`body ${at}`));
    const entries = bodies.map((bytes, at) => [`name ${at}`, follows(bytes)]);
    const upload = related({ _attachments: Object.fromEntries(entries) }, bodies);
    commitCount = 0;
    expect((await ask("PUT /films/a", upload)).status).toBe(201);
    expect(commitCount).toBeLessThan(10);
    expect((await ask("GET /films/a/name%20299")).text).toBe("body 299");
  });

  test("accepts a revision written by another server, and stores only its new attachments", async () => {
    const source = await openFilms();
    const target = await openFilms();
    const { rev } = (await source.ask("PUT /films/a/old", DIGITS)).json;
    const copy = async (query: string) => {
      const headers = { Accept: "multipart/related" };
      const sent = await source.ask(`GET /films/a?revs=true&${query}`, { headers });
      const type = sent.headers["Content-Type"] ?? "";
      expect(type).toMatch(/^multipart\/related; boundary="/);
      const written = await target.ask("PUT /films/a?new_edits=false", {
        body: sent.bytes,
        headers: { "Content-Type": type },
      });
      expect(written.status).toBe(201);
      return sent.text;
    };
    expect(await copy("attachments=true")).toContain("0123456789");
    await source.ask(`PUT /films/a/new?rev=${rev}`, {
      body: "text",
      headers: { "Content-Type": "text/plain" },
    });
    expect(await copy(`atts_since=["${rev}"]`)).not.toContain("0123456789");
    const query = "GET /films/a?revs=true&att_encoding_info=true";
    expect((await target.ask(query)).text).toBe((await source.ask(query)).text);
    expect((await target.ask("GET /films/a/new")).text).toBe("text");
    expect((await target.ask("GET /films/a/old")).text).toBe("0123456789");
  });

  test("is nested in the multipart/mixed response to open_revs", async () => {
    const { ask } = await openDigits(openFilms);
    const { _rev } = (await ask("GET /films/a")).json;
    const answer = await ask(`GET /films/a?revs=true&open_revs=["${_rev}","9-z"]`, {
      headers: { Accept: "multipart/mixed" },
    });
    const outer = /^multipart\/mixed; boundary="(.*)"$/.exec(answer.headers["Content-Type"] ?? "");
    const [, document = "", missing = ""] = answer.text.split(`--${outer?.[1]}`);
    expect(document).toContain("Content-Type: multipart/related; boundary=");
    expect(document).toContain('Content-Disposition: attachment; filename="digits"');
    expect(document).toContain("\r\n\r\n0123456789\r\n");
    expect(missing).toBe(
      '\r\nContent-Type: application/json; error="true"\r\n\r\n{"missing":"9-z"}\r\n',
    );
  });

  test("sends a document without new attachments as JSON", async () => {
    const { ask } = await openDigits(openFilms);
    const { _rev } = (await ask("GET /films/a")).json;
    const mixed = await ask(`GET /films/a?open_revs=["${_rev}"]&atts_since=["${_rev}"]`, {
      headers: { Accept: "multipart/mixed" },
    });
    expect(mixed.text).toContain("Content-Type: application/json\r\n");
    expect(mixed.text).toContain('"stub":true');
    const single = await ask(`GET /films/a?atts_since=["${_rev}"]`, {
      headers: { Accept: "multipart/related" },
    });
    expect(single.headers["Content-Type"]).toBe("application/json");
  });

  describe("is refused", () => {
    const document = { _attachments: { x: follows(second) } };
    testRows(FILMS, [
      {
        name: "if a part is missing",
        differs: "Tandem names the attachment",
        ask: "PUT /films/a",
        ...related(document, []),
        ...refusal(400, "bad_request", 'The part of attachment "x" is missing'),
      },
      {
        name: "if the body is truncated",
        differs: "CouchDB accepts the truncated body",
        ask: "PUT /films/a",
        ...related(document, [second]),
        body: related(document, [second]).body.subarray(0, -8),
        status: 400,
      },
      {
        name: "if a part does not match its digest",
        differs: "CouchDB fails with function_clause",
        ask: "PUT /films/a",
        ...related(document, [Buffer.from("SECOND")]),
        ...refusal(400, "content_md5_mismatch", "Possible message corruption."),
      },
      {
        name: "if a part does not have its declared length",
        ask: "PUT /films/a",
        ...related({ _attachments: { x: { follows: true, length: 5 } } }, [second]),
        status: 400,
      },
      {
        name: "if the document is invalid",
        ask: "PUT /films/a",
        ...related([], []),
        ...refusal(400, "bad_request", "Document must be a JSON object"),
      },
      {
        name: "without a boundary",
        differs: "Tandem names the missing part",
        ask: "PUT /films/a",
        body: "x",
        headers: { "Content-Type": "multipart/related" },
        ...refusal(400, "bad_request", "The Content-Type multipart/related has no boundary"),
      },
      {
        name: "if a stub refers to a missing attachment",
        ask: "PUT /films/a?new_edits=false",
        ...related({ _rev: "1-a", _attachments: { x: { stub: true } } }, []),
        ...refusal(412, "missing_stub", "Invalid attachment stub in a for x"),
      },
    ]);
  });
});

test("_bulk_docs accepts, and _bulk_get returns, attachments inlined in the document", async () => {
  const { ask } = await openFilms();
  const data = Buffer.from("abc").toString("base64");
  const docs = [{ _id: "a", _rev: "1-a", _attachments: { x: { content_type: "a/b", data } } }];
  await ask("POST /films/_bulk_docs", { body: { new_edits: false, docs } });
  const read = (query: string) =>
    ask(`POST /films/_bulk_get?${query}`, { body: { docs: [{ id: "a", rev: "1-a" }] } });
  const of = (answer: Awaited<ReturnType<typeof ask>>) =>
    answer.json.results[0].docs[0].ok._attachments.x;
  expect(of(await read("attachments=true"))).toMatchObject({ data, revpos: 1 });
  expect(of(await read(""))).toMatchObject({ stub: true, length: 3 });
  const listed = await ask("GET /films/_all_docs?include_docs=true&attachments=true");
  expect(listed.json.rows[0].doc._attachments.x.data).toBe(data);
});

test("attachments keep their digests if their document is restored with new_edits=false", async () => {
  const { ask } = await openFilms();
  const bytes = Buffer.from("the same words ".repeat(50)).toString("base64");
  const _attachments = {
    words: { content_type: "text/plain", data: bytes },
    picture: { content_type: "image/png", data: bytes },
  };
  await ask("PUT /films/backed-up", { body: { _attachments } });
  const backup = await ask("GET /films/backed-up?attachments=true&revs=true");
  await ask("PUT /restored");
  const body = { docs: [backup.json], new_edits: false };
  expect((await ask("POST /restored/_bulk_docs", { body })).json).toEqual([]);
  const stubs = async (database: string) =>
    (await ask(`GET /${database}/backed-up?att_encoding_info=true`)).json._attachments;
  expect(await stubs("restored")).toEqual(await stubs("films"));
  expect((await stubs("restored")).words.encoding).toBe("gzip");
  expect((await stubs("restored")).picture.encoding).toBeUndefined();
});
