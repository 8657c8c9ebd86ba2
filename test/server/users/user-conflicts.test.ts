/**
 * User documents with several leaves. Any leaf can win, and no leaf grants its owner additional
 * rights.
 */
import { SignJWT } from "jose";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { openServer, type RunningServer, readConfig } from "../../../src/server/index.ts";

const ROOT = "root:secret";
const CONFLICT = {
  status: 401,
  json: {
    error: "unauthorized",
    reason:
      "User document conflicts must be resolved before the document is used for authentication purposes.",
  },
};

let server: RunningServer;
let count = 0;
let name = "";

beforeAll(async () => {
  const admin = { COUCHDB_USER: "root", COUCHDB_PASSWORD: "secret" };
  const config = readConfig({ port: 0, store: "memory" }, admin);
  const { configuration } = config;
  configuration.set("chttpd_auth", "iterations", "10");
  configuration.set("couchdb", "users_db_security_editable", "true");
  configuration.set("jwt_keys", "hmac:_default", Buffer.from("a key of tokens").toString("base64"));
  const handlers = ["jwt", "cookie", "default"].map(
    (kind) => `{chttpd_auth, ${kind}_authentication_handler}`,
  );
  configuration.set("chttpd", "authentication_handlers", handlers.join(", "));
  server = await openServer(config, { event() {} });
  await ask("PUT", "/_users/_security", ROOT, { admins: { names: [], roles: ["keeper"] } });
  await ask("PUT", "/_users/org.couchdb.user:keeper", ROOT, {
    name: "keeper",
    type: "user",
    roles: ["keeper"],
    password: "pw",
  });
});

afterAll(() => server.stop());

beforeEach(() => {
  name = `user${count++}`;
});

async function ask(method: string, path: string, as: string | undefined, body?: object) {
  const authorization = as?.includes(":") ? `Basic ${btoa(as)}` : `Bearer ${as}`;
  const response = await fetch(`${server.url}${path}`, {
    method,
    headers: {
      "Content-Type": "application/json",
      ...(as === undefined ? {} : { Authorization: authorization }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  // biome-ignore lint/suspicious/noExplicitAny: tests look into it as they like.
  const json = (await response.json()) as any;
  return { status: response.status, json, cookie: response.headers.get("set-cookie") ?? "" };
}

const path = () => `/_users/org.couchdb.user:${name}`;
const own = () => `${name}:pw`;
const session = (as: string) => ask("GET", "/_session", as);

async function signUp(roles: readonly string[] = []): Promise<string> {
  const body = { name, type: "user", roles, password: "pw" };
  return (await ask("PUT", path(), ROOT, body)).json.rev;
}

/**
 * Writes a sibling of the document's first revision as the user `as`, in the way a replication
 * does.
 */
async function graft(as: string | undefined, changed: object, generation = 1, hash = "0") {
  const { _rev, ...body } = (await ask("GET", path(), ROOT)).json;
  const _revisions = { start: generation, ids: [hash.repeat(32)] };
  const rev = `${generation}-${hash.repeat(32)}`;
  const document = { ...body, ...changed, _rev: rev, _revisions };
  const bulk = { docs: [document], new_edits: false };
  return { rev, ...(await ask("POST", "/_users/_bulk_docs", as, bulk)) };
}

async function liveLeaves(): Promise<number> {
  const { json } = await ask("GET", `${path()}?conflicts=true`, ROOT);
  return json._rev === undefined ? 0 : 1 + (json._conflicts ?? []).length;
}

describe("a user document with conflicts", () => {
  test("invalidates the user's sessions, and the passwords of all leaves", async () => {
    await signUp();
    const login = await ask("POST", "/_session", undefined, { name, password: "pw" });
    await graft(ROOT, {});
    expect(await liveLeaves()).toBe(2);
    expect(await session(own())).toMatchObject(CONFLICT);
    expect(await session(`${name}:wrong`)).toMatchObject(CONFLICT);
    expect(await ask("POST", "/_session", undefined, { name, password: "pw" })).toMatchObject(
      CONFLICT,
    );
    const cookie = /^[^;]+/.exec(login.cookie)?.[0] ?? "";
    const response = await fetch(`${server.url}/_session`, { headers: { Cookie: cookie } });
    expect(response.status).toBe(401);
  });

  test("accepts the user's password again once an administrator has resolved the conflict", async () => {
    await signUp();
    const { rev } = await graft(ROOT, {});
    await ask("DELETE", `${path()}?rev=${rev}`, ROOT);
    expect((await session(own())).json.userCtx.name).toBe(name);
  });

  test("refuses the deletion of a leaf by a database administrator", async () => {
    await signUp();
    const { rev } = await graft(ROOT, { roles: ["_tandem_reader"] });
    const keeper = "keeper:pw";
    expect((await ask("DELETE", `${path()}?rev=${rev}`, keeper)).status).toBe(403);
    expect(await liveLeaves()).toBe(2);
  });
});

describe("the owner of a user document", () => {
  test("cannot add another leaf, whose roles would apply once the winner is deleted", async () => {
    await signUp(["editor"]);
    expect((await graft(own(), {})).json).toMatchObject([{ error: "forbidden" }]);
    // The leaf is refused even if it would be the winner.
    expect((await graft(own(), {}, 9, "f")).json).toMatchObject([{ error: "forbidden" }]);
    expect(await liveLeaves()).toBe(1);
  });

  test("can change the password, delete the document, and replicate a change to the document", async () => {
    const rev = await signUp(["editor"]);
    const { _rev, ...body } = (await ask("GET", path(), own())).json;
    const [, hash] = rev.split("-");
    const _revisions = { start: 2, ids: ["a".repeat(32), hash] };
    const next = { ...body, note: 1, _rev: `2-${"a".repeat(32)}`, _revisions };
    const bulk = { docs: [next], new_edits: false };
    expect((await ask("POST", "/_users/_bulk_docs", own(), bulk)).json).toEqual([]);
    expect((await ask("PUT", path(), own(), { ...next, password: "pw" })).status).toBe(201);
    const last = (await ask("GET", path(), ROOT)).json._rev;
    expect((await ask("DELETE", `${path()}?rev=${last}`, own())).status).toBe(200);
  });
});

describe("a token", () => {
  const token = () =>
    new SignJWT({})
      .setProtectedHeader({ alg: "HS256" })
      .setSubject(name)
      .setExpirationTime("1h")
      .sign(Buffer.from("a key of tokens"));

  test("does not get the rights of the directory user with the same name", async () => {
    const rev = await signUp(["editor"]);
    const as = await token();
    expect((await session(as)).json.userCtx).toEqual({ name, roles: [] });
    expect((await ask("GET", path(), as)).status).toBe(404);
    const body = { name, type: "user", roles: ["editor"], password: "mine", _rev: rev };
    expect((await ask("PUT", path(), as, body)).status).toBe(404);
    expect((await ask("DELETE", `${path()}?rev=${rev}`, as)).status).toBe(404);
    expect((await graft(as, {})).json).toMatchObject([{ error: "not_found" }]);
    expect((await session(own())).json.userCtx.roles).toEqual(["editor"]);
  });
});
