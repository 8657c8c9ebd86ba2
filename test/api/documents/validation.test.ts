import { describe, expect, test } from "vitest";
import { SECURITY_ADMIN_ONLY } from "../../../src/databases/index.ts";
import type { Engine } from "../../../src/kv/index.ts";
import { type Asked, openFilms } from "../api.fixture.ts";
import { refusal, testRows } from "../rows.ts";

const VALIDATE = `function (newDoc, oldDoc, userCtx, secObj) {
  if (newDoc.f !== undefined) throw({forbidden: newDoc.f});
  if (newDoc.u) throw({unauthorized: 'u!'});
  if (newDoc.o) throw({other: 'o'});
  if (newDoc.e) throw new Error('err');
  if (newDoc.s) throw 'str';
  if (newDoc.a) throw(['error', 'x', 'y']);
  if (newDoc.ref) nope();
  if (newDoc.loop) for (;;);
  if (newDoc.show) throw({forbidden: JSON.stringify([newDoc, oldDoc, userCtx, secObj])});
  if (newDoc._deleted && oldDoc && oldDoc.keep) throw({forbidden: 'keep'});
}`;

async function openValidated<Api extends Asked>(
  open: () => Promise<Api>,
  validate = VALIDATE,
): Promise<Api> {
  const films = await open();
  await films.ask("PUT /films/_design/v", { body: { validate_doc_update: validate } });
  return films;
}

const USER = { db: "films", name: null, roles: ["_admin"] };
const SECURITY = JSON.parse(SECURITY_ADMIN_ONLY);

/** The expected refusal, whose reason lists the arguments of the validation function. */
const shown = (newDoc: object, oldDoc: object | null) =>
  refusal(403, "forbidden", JSON.stringify([newDoc, oldDoc, USER, SECURITY]));

describe("validate_doc_update", () => {
  testRows(openValidated, [
    { name: "accepts a document", ask: "PUT /films/x", body: { ok: 1 }, status: 201 },
    {
      name: "refuses a document as forbidden",
      ask: "PUT /films/x",
      body: { f: "no" },
      ...refusal(403, "forbidden", "no"),
    },
    {
      name: "refuses with a reason that is not a string and is therefore converted",
      differs: "A reason is a string",
      ask: "PUT /films/x",
      body: { f: { a: 1 } },
      ...refusal(403, "forbidden", '{"a":1}'),
    },
    {
      name: "refuses a document as unauthorized",
      ask: "PUT /films/x",
      body: { u: 1 },
      ...refusal(401, "unauthorized", "u!"),
    },
    {
      name: "throws another object",
      ask: "PUT /films/x",
      body: { o: 1 },
      ...refusal(500, "unknown_error", "o"),
    },
    {
      name: "throws a string",
      ask: "PUT /films/x",
      body: { s: 1 },
      ...refusal(500, "unknown_error", "str"),
    },
    { name: "throws a list", ask: "PUT /films/x", body: { a: 1 }, ...refusal(500, "x", "y") },
    {
      name: "throws an error",
      differs: "CouchDB loses its message",
      ask: "PUT /films/x",
      body: { e: 1 },
      ...refusal(500, "Error", "err"),
    },
    {
      name: "fails with a ReferenceError",
      ask: "PUT /films/x",
      body: { ref: 1 },
      status: 500,
      has: { error: "ReferenceError" },
    },
    {
      name: "exceeds its time limit",
      ask: "PUT /films/x",
      body: { loop: 1 },
      ...refusal(500, "os_process_error", "OS process timed out."),
    },
    {
      name: "receives a new document",
      onlyHere: "It has another user",
      ask: "PUT /films/x",
      body: { show: 1 },
      ...shown({ _id: "x", show: 1 }, null),
    },
    {
      name: "receives a replicated document with its revisions",
      onlyHere: "It has another user",
      ask: "PUT /films/x?new_edits=false",
      body: { _rev: "2-b", _revisions: { start: 2, ids: ["b", "a"] }, show: 1 },
      ...shown({ _id: "x", _rev: "2-b", show: 1, _revisions: { start: 2, ids: ["b", "a"] } }, null),
    },
    {
      name: "validates an upload by POST",
      ask: "POST /films",
      body: { _id: "x", f: "no" },
      ...refusal(403, "forbidden", "no"),
    },
    {
      name: "is not called for local documents",
      ask: "PUT /films/_local/x",
      body: { f: "no" },
      status: 201,
    },
    {
      name: "is not called for design documents",
      ask: "PUT /films/_design/x",
      body: { f: "no" },
      status: 201,
    },
    {
      name: "refuses single documents of a bulk write, and the others are written",
      ask: "POST /films/_bulk_docs",
      body: {
        docs: [
          { _id: "1", ok: 1 },
          { _id: "2", f: "no" },
          { _id: "3", u: 1 },
          { _id: "4", o: 1 },
          { _id: "5", loop: 1 },
          { _id: "6", ok: 1 },
        ],
      },
      status: 201,
      has: [
        { ok: true, id: "1" },
        { id: "2", error: "forbidden", reason: "no" },
        { id: "3", error: "unauthorized", reason: "u!" },
        { id: "4", error: "unknown_error", reason: "o" },
        { id: "5", error: "os_process_error", reason: "OS process timed out." },
        { ok: true, id: "6" },
      ],
    },
    {
      name: "validates replicated revisions",
      ask: "POST /films/_bulk_docs",
      body: {
        new_edits: false,
        docs: [
          { _id: "1", _rev: "1-a", ok: 1 },
          { _id: "2", _rev: "1-a", f: "no" },
        ],
      },
      status: 201,
      json: [{ id: "2", rev: "1-a", error: "forbidden", reason: "no" }],
    },
  ]);

  test("receives the previous revision and the deletion, and may refuse the deletion", async () => {
    const { ask } = await openValidated(openFilms);
    const body = {
      keep: 1,
      _attachments: { a: { data: "YQ==", content_type: "image/png" } },
    };
    const { rev } = (await ask("PUT /films/k", { body })).json;
    expect(await ask(`DELETE /films/k?rev=${rev}`)).toMatchObject(
      refusal(403, "forbidden", "keep"),
    );
    const revisions = { start: 1, ids: [rev.slice(2)] };
    const [newDoc, oldDoc] = JSON.parse(
      (await ask(`PUT /films/k?rev=${rev}`, { body: { show: 1 } })).json.reason,
    );
    expect(newDoc).toEqual({ _id: "k", _rev: rev, show: 1, _revisions: revisions });
    expect(oldDoc).toMatchObject({
      _id: "k",
      _rev: rev,
      keep: 1,
      _revisions: revisions,
      _attachments: { a: { content_type: "image/png", stub: true, length: 1, revpos: 1 } },
    });
  });

  test("validates an attachment that is written separately", async () => {
    const { ask } = await openValidated(
      openFilms,
      "function (doc) { if (doc._attachments) throw({forbidden: Object.keys(doc._attachments)[0]}); }",
    );
    const headers = { "Content-Type": "text/plain" };
    expect(await ask("PUT /films/x/note", { body: "text", headers })).toMatchObject(
      refusal(403, "forbidden", "note"),
    );
  });

  test("runs only after the check for conflicts", async () => {
    const { ask } = await openValidated(openFilms);
    await ask("PUT /films/x", { body: {} });
    expect((await ask("PUT /films/x", { body: { f: "no" } })).status).toBe(409);
  });

  test("that does not compile refuses all writes until its design document is removed", async () => {
    const { ask } = await openValidated(openFilms, "function (a {");
    const answer = await ask("PUT /films/x", { body: {} });
    expect(answer).toMatchObject({ status: 500, json: { error: "compilation_error" } });
    const { _rev } = (await ask("GET /films/_design/v")).json;
    await ask(`DELETE /films/_design/v?rev=${_rev}`);
    expect((await ask("PUT /films/x", { body: {} })).status).toBe(201);
  });

  test("refuses a write unless the functions of all design documents accept the write", async () => {
    const { ask } = await openValidated(openFilms);
    const second = "function (doc) { if (doc.second) throw({forbidden: 'second'}); }";
    await ask("PUT /films/_design/w", { body: { validate_doc_update: second } });
    const put = (body: object) => ask("PUT /films/x", { body });
    expect(await put({ second: 1 })).toMatchObject(refusal(403, "forbidden", "second"));
    expect(await put({ f: "first", second: 1 })).toMatchObject(refusal(403, "forbidden", "first"));
    expect((await put({})).status).toBe(201);
  });

  test("validates each write against the revision that it replaces, even if many clients write concurrently", async () => {
    const { ask } = await openValidated(
      openFilms,
      "function (doc, old) { if ((old ? old.n : 0) + 1 !== doc.n) throw({forbidden: 'gap'}); }",
    );
    await ask("PUT /films/x", { body: { n: 1 } });
    const count = async (): Promise<void> => {
      for (;;) {
        const { _rev, n } = (await ask("GET /films/x")).json;
        const { status } = await ask(`PUT /films/x?rev=${_rev}`, { body: { n: n + 1 } });
        if (status === 201) return;
        expect(status).toBe(409);
      }
    };
    await Promise.all(Array.from({ length: 5 }, count));
    expect((await ask("GET /films/x")).json.n).toBe(6);
  });
});

test.each([
  ["a design document", "PUT /films/_design/a"],
  ["a validated document", "PUT /films/a"],
])("%s of several megabytes is written once, after it has been validated", async (_, request) => {
  let setBytes = 0;
  const counting = (engine: Engine): Engine => {
    const begin = engine.begin.bind(engine);
    engine.begin = (attempt) => {
      const begun = begin(attempt);
      const { transaction } = begun;
      const set = transaction.set.bind(transaction);
      transaction.set = (key, value, options) => {
        setBytes += value.length;
        set(key, value, options);
      };
      return begun;
    };
    return engine;
  };
  const { ask } = await openValidated(() => openFilms({ wrapEngine: counting }));
  const body = { text: "x".repeat(1_000_000) };
  setBytes = 0;
  const { status, json } = await ask(request, { body });
  expect(status).toBe(201);
  expect(setBytes).toBeGreaterThan(1_000_000);
  expect(setBytes).toBeLessThan(1_010_000);
  const path = request.replace("PUT", "GET");
  expect((await ask(path)).json).toEqual({ _id: json.id, _rev: json.rev, ...body });
});
