/**
 * Access to the `_replicator` databases of a node. Behaves like CouchDB 3.5 unless stated
 * otherwise.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { openServer, type RunningServer, readConfig } from "../../../src/server/index.ts";

const ROOT = "root:secret";
const ALICE = "alice:pw";
const BOB = "bob:pw";
/** A user who is an admin only of `team/_replicator`. */
const CHIEF = "chief:pw";

let server: RunningServer;
let count = 0;
let id = "";

async function ask(method: string, path: string, as?: string, body?: unknown) {
  const response = await fetch(`${server.url}${path}`, {
    method,
    headers: as === undefined ? { "Content-Type": "application/json" } : headersOf(as),
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  // biome-ignore lint/suspicious/noExplicitAny: tests look into it as they like.
  return { status: response.status, json: (await response.json()) as any };
}

const headersOf = (as: string): Record<string, string> => ({
  Authorization: `Basic ${Buffer.from(as).toString("base64")}`,
  "Content-Type": "application/json",
});

function putText(path: string, as: string, body: string): Promise<Response> {
  return fetch(`${server.url}${path}`, { method: "PUT", headers: headersOf(as), body });
}

async function readText(path: string, as: string): Promise<string> {
  return (await fetch(`${server.url}${path}`, { headers: headersOf(as) })).text();
}

beforeAll(async () => {
  const config = readConfig(
    // Jobs do not run, so that the documents stay as they were written.
    { port: 0, store: "memory", nodeType: "api_frontend" },
    { COUCHDB_USER: "root", COUCHDB_PASSWORD: "secret" },
  );
  config.configuration.set("chttpd_auth", "iterations", "10");
  server = await openServer(config, { event() {} });
  for (const name of ["alice", "bob", "chief"]) {
    const body = { name, type: "user", roles: [], password: "pw" };
    expect((await ask("PUT", `/_users/org.couchdb.user:${name}`, ROOT, body)).status).toBe(201);
  }
  await ask("PUT", "/team%2f_replicator", ROOT);
  await ask("PUT", "/_replicator/_security", ROOT, {});
  const admins = { names: ["chief"] };
  await ask("PUT", "/team%2f_replicator/_security", ROOT, { admins });
});
afterAll(() => server.stop());
beforeEach(() => {
  id = `doc${count++}`;
});

const BODY = {
  source: "http://user:password@127.0.0.1:1/a",
  target: {
    url: "http://user:password@127.0.0.1:1/b",
    headers: { Cookie: "c" },
    auth: { basic: { username: "user", password: "password" } },
  },
  source_proxy: "http://user:password@127.0.0.1:2",
  x: 1.5,
};
const STRIPPED = {
  source: "http://127.0.0.1:1/a",
  target: { url: "http://127.0.0.1:1/b" },
  source_proxy: "http://127.0.0.1:2",
  x: 1.5,
};
const OTHERS = {
  status: 403,
  json: { error: "forbidden", reason: "Can't update replication documents from other users." },
};

describe.each(["_replicator", "team%2f_replicator"])("a document in %s", (database) => {
  const put = (as: string | undefined, more: object = {}) =>
    ask("PUT", `/${database}/${id}`, as, { ...BODY, ...more });
  const read = async (as?: string, query = "") =>
    (await ask("GET", `/${database}/${id}${query}`, as)).json;

  test("belongs to its writer, and hides credentials from other users", async () => {
    const { rev } = (await put(ALICE)).json;
    expect(await read(ALICE)).toEqual({ _id: id, _rev: rev, ...BODY, owner: "alice" });
    const shown = { _id: id, _rev: rev, ...STRIPPED, owner: "alice" };
    expect(await read(BOB)).toEqual(shown);
    expect(await read()).toEqual(shown);
    expect(await read(ROOT)).toMatchObject(BODY);
    expect(await read(BOB, `?rev=${rev}`)).toEqual(shown);
    const docs = [{ id }];
    const bulk = await ask("POST", `/${database}/_bulk_get`, BOB, { docs });
    expect(bulk.json.results[0].docs[0].ok).toMatchObject(shown);
    const selector = { _id: id };
    expect((await ask("POST", `/${database}/_find`, BOB, { selector })).json.docs).toEqual([shown]);
    const secret = { selector: { "target.headers.Cookie": "c", _id: id } };
    expect((await ask("POST", `/${database}/_find`, BOB, secret)).json.docs).toEqual([]);
  });

  test.each(["http//u:hidden@h/a", "http:/u:hidden@h/a", " http://u:hid/hidden@h/a"])(
    "does not show a password to other users, even in a mistyped URL, or in a member with a mistyped name: %s",
    async (url) => {
      const notes = [{ url: "https://u:hidden@h/?t=hidden" }];
      const target = { url: BODY.target.url, passwort: "hidden", Headers: { Cookie: "hidden" } };
      const replicated = { _id: `${id}-r`, _rev: "1-a", source: url, target, owner: "root" };
      const bulk = { docs: [{ ...replicated, notes }], new_edits: false };
      await ask("POST", `/${database}/_bulk_docs`, ROOT, bulk);
      await put(ALICE, { notes, sorce: "http://u:hidden@h/", target });
      for (const name of [id, `${id}-r`]) {
        const { status, json } = await ask("GET", `/${database}/${name}`, BOB);
        expect(status).toBe(200);
        expect(JSON.stringify(json)).not.toContain("hidden");
      }
    },
  );

  test("shows other users the exact numbers in a selector, even if credentials in a URL are hidden", async () => {
    const selector = '{"n":[369553424691494913,1.0,1e3,-0.0],"m":"a@b","o":{"2":1,"1":0}}';
    const url = JSON.stringify('https://u:hidden@h/a"\\');
    const rest = `"selector":${selector},"u":[${url},"\\u00e9",1.0]`;
    const body = `{"source":${url},"target":"b",${rest}}`;
    const { status } = await putText(`/${database}/${id}`, ALICE, body);
    expect(status).toBe(201);
    const shown = await readText(`/${database}/${id}`, BOB);
    expect(shown).toContain(rest.replace("u:hidden@", ""));
    expect(shown).not.toContain("hidden");
  });

  test("can be changed only by its owner", async () => {
    const { rev } = (await put(ALICE)).json;
    expect(await put(BOB, { _rev: rev })).toMatchObject(OTHERS);
    expect(await put(BOB, { _rev: rev, owner: "alice" })).toMatchObject(OTHERS);
    expect(await ask("DELETE", `/${database}/${id}?rev=${rev}`, BOB)).toMatchObject(OTHERS);
    const docs = [{ ...BODY, _id: id, _rev: "1-b", owner: "bob" }];
    const bulk = { docs, new_edits: false };
    expect((await ask("POST", `/${database}/_bulk_docs`, BOB, bulk)).json).toMatchObject([
      { id, error: "forbidden" },
    ]);
    expect((await put(ALICE, { _rev: rev, x: 2 })).status).toBe(201);
    expect((await put(ROOT, { _rev: (await read(ALICE))._rev, owner: "alice" })).status).toBe(201);
    const last = (await read(ALICE))._rev;
    expect((await ask("DELETE", `/${database}/${id}?rev=${last}`, ALICE)).status).toBe(200);
  });

  test("cannot be created in the name of another user, because its job would have the rights of that user", async () => {
    expect(await put(BOB, { owner: "root" })).toMatchObject(OTHERS);
    const docs = [{ ...BODY, _id: id, _rev: "1-b", owner: "root" }];
    const bulk = { docs, new_edits: false };
    expect((await ask("POST", `/${database}/_bulk_docs`, BOB, bulk)).json).toMatchObject([
      { id, error: "forbidden" },
    ]);
    delete (docs[0] as { owner?: string }).owner;
    expect((await ask("POST", `/${database}/_bulk_docs`, BOB, bulk)).json).toMatchObject([
      { id, error: "forbidden" },
    ]);
    expect((await put(ROOT, { owner: "bob" })).status).toBe(201);
  });

  test("cannot be created by an anonymous user", async () => {
    expect(await put(undefined)).toMatchObject({
      status: 401,
      json: { error: "unauthorized", reason: "You are not an authenticated user" },
    });
  });

  test("without an owner is assigned to the server admin who writes it", async () => {
    await put(ROOT, { owner: null });
    expect((await read(ROOT)).owner).toBe("root");
  });
});

test("only server admins may list `_replicator`; all users with access may list other replicator databases", async () => {
  for (const list of ["_all_docs", "_changes"]) {
    expect((await ask("GET", `/_replicator/${list}`, ALICE)).status).toBe(401);
    const { json } = await ask("GET", `/team%2f_replicator/${list}?include_docs=true`);
    expect(json).not.toHaveProperty("error");
    expect(JSON.stringify(json)).not.toContain("password");
  }
});

test("an admin of the database may read and delete other users' documents, but not change them", async () => {
  const path = `/team%2f_replicator/${id}`;
  const { rev } = (await ask("PUT", path, ALICE, BODY)).json;
  expect((await ask("GET", path, CHIEF)).json).toMatchObject(BODY);
  const changed = { ...BODY, _rev: rev, owner: "alice" };
  expect(await ask("PUT", path, CHIEF, changed)).toMatchObject(OTHERS);
  expect((await ask("DELETE", `${path}?rev=${rev}`, CHIEF)).status).toBe(200);
});

describe("a reference to a secret of the node", () => {
  const body = (url = "http://127.0.0.1:1/a") => ({
    source: { url, auth: { basic: { username: "jan", password: "env:CREDENTIAL_A" } } },
    target: "b",
  });
  const reason =
    "`source.basic.password` refers to a secret of the server; this requires server admin rights";

  test("requires a server admin, both in documents and in request bodies", async () => {
    for (const [method, path] of [
      ["PUT", `/_replicator/${id}`],
      ["POST", "/_replicate"],
    ] as const) {
      const refused = await ask(method, path, ALICE, body());
      expect([refused.status, refused.json.reason]).toEqual([403, reason]);
    }
    expect((await ask("PUT", `/_replicator/${id}`, ROOT, body())).status).toBe(201);
  });

  test("cannot be sent to another server by an owner who edits a document that an admin wrote", async () => {
    await ask("PUT", `/_replicator/${id}`, ROOT, { ...body(), owner: "alice" });
    const { json } = await ask("GET", `/_replicator/${id}`, ALICE);
    const edited = { ...json, ...body("http://127.0.0.1:9/mine") };
    const refused = await ask("PUT", `/_replicator/${id}`, ALICE, edited);
    expect([refused.status, refused.json.reason]).toEqual([403, reason]);
  });
});

describe("a masked secret", () => {
  const source = "http://jan:secret@127.0.0.1:1/a";
  const masked = "http://jan:*****@127.0.0.1:1/a";

  test("stands for the stored secret in an edit, and is refused if the edit changes the server's URL", async () => {
    await ask("PUT", `/_replicator/${id}`, ALICE, { source, target: "b" });
    const { json } = await ask("GET", `/_replicator/${id}`, ALICE);
    const edited = { ...json, source: masked, continuous: true };
    expect((await ask("PUT", `/_replicator/${id}`, ALICE, edited)).status).toBe(201);
    const after = (await ask("GET", `/_replicator/${id}`, ALICE)).json;
    expect(after).toMatchObject({ source, continuous: true });
    const elsewhere = { ...after, source: masked.replace("127.0.0.1:1", "127.0.0.1:9") };
    const refused = await ask("PUT", `/_replicator/${id}`, ALICE, elsewhere);
    expect([refused.status, refused.json.error]).toEqual([403, "forbidden"]);
    expect(refused.json.reason).toMatch(/^`source` is masked: enter the secret itself/);
    expect((await ask("GET", `/_replicator/${id}`, ALICE)).json).toEqual(after);
  });

  test("is refused in a document that belongs to another user", async () => {
    await ask("PUT", `/_replicator/${id}`, ALICE, { source, target: "b" });
    const { json } = await ask("GET", `/_replicator/${id}`, ALICE);
    const edited = { ...json, source: masked, owner: "bob" };
    expect((await ask("PUT", `/_replicator/${id}`, BOB, edited)).status).toBe(403);
    const copy = await ask("PUT", `/_replicator/${id}-copy`, BOB, { source: masked, target: "b" });
    expect(copy.json.reason).toContain("`source` is masked");
  });

  test("is refused in a `_replicate` body, because no secret is stored for it", async () => {
    const refused = await ask("POST", "/_replicate", ALICE, { source: masked, target: "b" });
    expect(refused.json.reason).toContain("`source` is masked");
  });
});

test("a selector with an operator outside a field is refused, as in a query", async () => {
  const reason = "One or more conditions is missing a field name.";
  const body = { source: "http://127.0.0.1:1/a", target: "http://127.0.0.1:1/b" };
  for (const selector of [{ $gt: 5 }, { $in: [1] }]) {
    const document = await ask("PUT", `/_replicator/${id}`, ROOT, { ...body, selector });
    expect(document).toEqual({ status: 403, json: { error: "forbidden", reason } });
    const transient = await ask("POST", "/_replicate", ROOT, { ...body, selector });
    expect(transient).toEqual({ status: 400, json: { error: "invalid_selector", reason } });
  }
});
