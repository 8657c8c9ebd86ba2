/**
 * Stores written by earlier versions are opened by this version, with their content. Each store is
 * a file in `test/fixtures/stores`.
 *
 * A version with another format adds a file, and leaves the other files unchanged:
 *
 *   npm run build && STORE_FIXTURE=test/fixtures/stores/6.txt \
 *     npx vitest run test/end-to-end/stored-formats.test.ts
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { Processes, type TandemProcess } from "../support/open-process.ts";
import { dumpStore, restoreStore } from "../support/store-dump.ts";

const FIXTURES = new URL("../fixtures/stores/", import.meta.url);
const INI = "[admins]\nadm = pass\n";
/** Environment with the key for stores with sealed secrets. */
const ENVIRONMENT = { TANDEM_SECRETS_KEY: Buffer.alloc(32, 7).toString("base64") };
const ADMIN = basic("adm", "pass");
/** The node runs no jobs, so that the state of the stored job does not change. */
const FLAGS = ["--node-type", "api_frontend"];

const TEXT = "a text that is stored compressed ".repeat(20);
const BYTES = Buffer.from(Array.from({ length: 70_000 }, (_, n) => (n * n) % 251));
const LONG = "long ".repeat(20_000);
const FOREIGN = '{"big":12345678901234567890,"one":1.0}';
const SECURITY = { admins: { names: ["ann"], roles: [] }, members: { names: ["ann"], roles: [] } };

const processes = new Processes();
afterAll(() => processes.close());

function basic(name: string, password: string): string {
  return `Basic ${Buffer.from(`${name}:${password}`).toString("base64")}`;
}

async function ask(
  { url }: TandemProcess,
  request: string,
  { body, type = "application/json", authorization = ADMIN }: AskOptions = {},
) {
  const [method = "GET", path = "/"] = request.split(" ");
  const headers = { authorization, "content-type": type };
  const answer = await fetch(`${url}${path}`, {
    method,
    headers,
    ...(body === undefined ? {} : { body }),
  });
  const bytes = Buffer.from(await answer.arrayBuffer());
  const text = bytes.toString();
  const isJson = answer.headers.get("content-type") === "application/json";
  return { status: answer.status, bytes, text, json: isJson ? JSON.parse(text) : undefined };
}

interface AskOptions {
  readonly body?: string | Buffer;
  readonly type?: string;
  readonly authorization?: string;
}

/** Writes at least one record of each kind. */
async function fill(server: TandemProcess): Promise<void> {
  const send = async (request: string, options?: AskOptions) => {
    const answer = await ask(server, request, options);
    if (answer.status >= 300) throw new Error(`${request}: ${answer.status} ${answer.text}`);
    return answer;
  };
  const sendJson = (request: string, value: unknown) => {
    return send(request, { body: JSON.stringify(value) });
  };
  await send("PUT /films");
  const leaf = (hash: string, parent: string) => ({
    _id: "rivals",
    _revisions: { start: 2, ids: [hash, parent] },
    hash,
  });
  const docs = [
    leaf("x", "r"),
    leaf("y", "r"),
    { _id: "gone", _revisions: { start: 2, ids: ["d", "c"] }, _deleted: true, why: "old" },
    { _id: "long", _rev: "1-0123456789abcdef0123456789abcdef", text: LONG },
    { _id: "é\u0000", _rev: "1-odd" },
    { _id: "purged", _rev: "1-p" },
    { _id: "_design/d", _rev: "1-d", filters: { none: "function () { return false; }" } },
  ];
  await sendJson("POST /films/_bulk_docs", { new_edits: false, docs });
  await send("PUT /films/numbers?new_edits=false", {
    body: FOREIGN.replace("{", '{"_rev":"1-n",'),
  });
  const { rev } = (await send("PUT /films/att/t", { body: TEXT, type: "text/plain" })).json;
  await send(`PUT /films/att/b?rev=${rev}`, { body: BYTES, type: "image/png" });
  await sendJson("PUT /films/_local/checkpoint", { at: 7 });
  await sendJson("POST /films/_purge", { purged: ["1-p"] });
  await send("PUT /films/_revs_limit", { body: "50" });
  await send("PUT /films/_purged_infos_limit", { body: "9" });
  await sendJson("PUT /films/_security", SECURITY);
  await send("PUT /indexed");
  const words = ["b", "A", "á", "a"].map((word) => ({ _id: `word ${word}`, word }));
  await sendJson("POST /indexed/_bulk_docs", { docs: words });
  await sendJson("POST /indexed/_index", { index: { fields: ["word"] }, ddoc: "d", name: "word" });
  // This query responds only once the index is complete.
  await sendJson("POST /indexed/_find", { selector: { word: "a" } });
  await sendJson("PUT /_users/org.couchdb.user:ann", {
    name: "ann",
    password: "secret",
    roles: [],
    type: "user",
  });
  await sendJson("PUT /_replicator/copy", {
    source: "http://127.0.0.1:1/films",
    target: "http://127.0.0.1:1/copy",
    continuous: true,
  });
}

/** Expects everything that `fill` wrote, through every way of reading it. */
async function expectAll(server: TandemProcess): Promise<void> {
  const read = async (path: string) => (await ask(server, `GET ${path}`)).json;
  expect(await read("/films")).toMatchObject({
    doc_count: 6,
    doc_del_count: 1,
    purge_seq: "1",
  });
  expect((await read("/films/_all_docs")).rows.map(({ id }: { id: string }) => id)).toEqual([
    "_design/d",
    "att",
    "long",
    "numbers",
    "rivals",
    "é\u0000",
  ]);
  const { results, pending } = await read("/films/_changes?style=all_docs");
  expect(pending).toBe(0);
  expect(
    results.map(({ id, changes }: { id: string; changes: unknown[] }) => [id, changes.length]),
  ).toEqual([
    ["rivals", 2],
    ["gone", 1],
    ["long", 1],
    ["é\u0000", 1],
    ["_design/d", 1],
    ["numbers", 1],
    ["att", 1],
  ]);
  expect(await read("/films/rivals?conflicts=true&revs=true")).toEqual({
    _id: "rivals",
    _rev: "2-y",
    hash: "y",
    _revisions: { start: 2, ids: ["y", "r"] },
    _conflicts: ["2-x"],
  });
  expect(await read("/films/rivals?rev=2-x")).toMatchObject({ hash: "x" });
  expect(await read("/films/gone?rev=2-d")).toMatchObject({ _deleted: true, why: "old" });
  expect(await read("/films/long")).toMatchObject({ text: LONG });
  expect((await ask(server, "GET /films/numbers")).text).toContain(FOREIGN.slice(1));
  expect((await ask(server, "GET /films/att/t")).text).toBe(TEXT);
  expect((await ask(server, "GET /films/att/b")).bytes.equals(BYTES)).toBe(true);
  expect((await read("/films/att?att_encoding_info=true"))._attachments).toMatchObject({
    t: { length: TEXT.length, encoding: "gzip", revpos: 1 },
    b: { length: BYTES.length, revpos: 2 },
  });
  expect(await read("/films/_local/checkpoint")).toMatchObject({ _rev: "0-1", at: 7 });
  expect(await read("/films/_purged_infos")).toEqual({
    purged_infos: [{ id: "purged", revs: ["1-p"] }],
  });
  expect(await read("/films/_revs_limit")).toBe(50);
  expect(await read("/films/_purged_infos_limit")).toBe(9);
  expect(await read("/films/_security")).toEqual(SECURITY);
  const ann = await ask(server, "GET /films/long", { authorization: basic("ann", "secret") });
  expect(ann.status).toBe(200);
  const wrong = await ask(server, "GET /films/long", { authorization: basic("ann", "no") });
  expect(wrong.status).toBe(401);
  expect(await read("/_scheduler/docs/_replicator/copy")).toMatchObject({
    doc_id: "copy",
    state: "pending",
  });
  for (const list of ["_scheduler/docs", "_scheduler/jobs", "_tandem/jobs?source=127.0.0.1"]) {
    expect(await read(`/${list}`)).toMatchObject({ total_rows: 1 });
  }
  expect(await read("/_replicator/copy")).toMatchObject({ continuous: true });
  const added = await ask(server, "PUT /films/added", { body: "{}" });
  expect(added.status).toBe(201);
  expect((await read("/films")).doc_count).toBe(7);
}

/**
 * Expects the index that `fill` created. A version of Node.js with another ICU version rebuilds the
 * index.
 */
async function expectIndex(server: TandemProcess): Promise<void> {
  const query = { selector: { word: { $gt: null } }, sort: ["word"], fields: ["word"] };
  const body = JSON.stringify(query);
  const { json } = await ask(server, "POST /indexed/_find", { body });
  expect(json.docs.map(({ word }: { word: string }) => word)).toEqual(["a", "A", "á", "b"]);
  const { indexes } = (await ask(server, "GET /indexed/_index")).json;
  expect(indexes).toMatchObject([{ name: "_all_docs" }, { ddoc: "_design/d", name: "word" }]);
}

test("a store written by this version contains everything that the test wrote to it", async () => {
  const directory = processes.directory();
  const writing = await processes.open({
    directory,
    ini: INI,
    flags: FLAGS,
    environment: ENVIRONMENT,
  });
  await fill(writing);
  await writing.stop();
  const file = process.env.STORE_FIXTURE;
  if (file !== undefined) writeFileSync(file, await dumpStore(join(directory, "data")));
  const reading = await processes.open({
    directory,
    ini: INI,
    flags: FLAGS,
    environment: ENVIRONMENT,
  });
  await expectAll(reading);
  await expectIndex(reading);
});

/** Fixtures of versions without indexes. */
const WITHOUT_INDEXES = /^[1-5]\.txt$/;

test.each(readdirSync(FIXTURES))("the store of %s can be read and written", async (name) => {
  const directory = processes.directory();
  await restoreStore(readFileSync(new URL(name, FIXTURES), "utf8"), join(directory, "data"));
  const options = { directory, ini: INI, flags: FLAGS, environment: ENVIRONMENT };
  const server = await processes.open(options);
  await expectAll(server);
  if (!WITHOUT_INDEXES.test(name)) await expectIndex(server);
});
