/**
 * Users who are identified by a token or a proxy, and whose names also exist in the user directory.
 * Their jobs have the roles given by the token or proxy, and none of the directory user's rights.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { SignJWT } from "jose";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openServer, type RunningServer, readConfig } from "../../../src/server/index.ts";

type Headers = Readonly<Record<string, string>>;

const KEY = Buffer.from("a key that is long enough for SHA-256");
const ROOT = password("root", "secret");
/** User who may read `secret`, because the directory gives this user a role. */
const JOE = password("joe", "pw");

let server: RunningServer;
/** A server without administrators. */
let party: RunningServer;
/** Documents whose jobs have ended a run. `tell` is called each time a run ends. */
const ended = new Set<string | undefined>();
let tell = (): void => {};

beforeAll(async () => {
  const config = readConfig(
    { port: 0, store: "memory" },
    { COUCHDB_USER: "root", COUCHDB_PASSWORD: "secret", CREDENTIAL_A: "resolved-a" },
  );
  const { configuration } = config;
  const handlers = ["jwt", "proxy", "cookie", "default"];
  const names = handlers.map((kind) => `{chttpd_auth, ${kind}_authentication_handler}`);
  configuration.set("chttpd", "authentication_handlers", names.join(", "));
  configuration.set("chttpd_auth", "iterations", "10");
  configuration.set("jwt_keys", "hmac:_default", KEY.toString("base64"));
  // A crashed job must not be retried within a test.
  configuration.set("replicator", "max_backoff_penalty_sec", "3600");
  configuration.set("replicator", "min_backoff_penalty_sec", "3600");
  const trace = {
    event(name: string, fields: object) {
      if (name !== "replication.ended") return;
      ended.add((fields as { readonly jobId: string }).jobId.split("|")[1]);
      tell();
    },
  };
  server = await openServer(config, trace);
  party = await openServer(readConfig({ port: 0, store: "memory" }, {}), trace);
  const members = { names: [], roles: ["reader"] };
  for (const name of ["secret", "loot", "other"]) await ask("PUT", `/${name}`, ROOT);
  await ask("PUT", "/secret/_security", ROOT, { members });
  for (const name of ["loot", "other", "_replicator"])
    await ask("PUT", `/${name}/_security`, ROOT, {});
  await ask("PUT", "/secret/one", ROOT, {});
  const user = { name: "joe", type: "user", roles: ["reader"], password: "pw" };
  await ask("PUT", "/_users/org.couchdb.user:joe", ROOT, user);
});

afterAll(() => Promise.all([server.stop(), party.stop()]));

function password(name: string, text: string): Headers {
  return { Authorization: `Basic ${Buffer.from(`${name}:${text}`).toString("base64")}` };
}

async function token(sub: string, roles: readonly string[] = []): Promise<Headers> {
  const claims = new SignJWT({ sub, "_couchdb.roles": roles });
  const text = await claims.setProtectedHeader({ alg: "HS256" }).setExpirationTime("1h").sign(KEY);
  return { Authorization: `Bearer ${text}` };
}

function proxied(name: string, roles: readonly string[] = []): Headers {
  return { "X-Auth-CouchDB-UserName": name, "X-Auth-CouchDB-Roles": roles.join(",") };
}

async function ask(method: string, path: string, as: Headers, body?: object, at = server) {
  const response = await fetch(`${at.url}${path}`, {
    method,
    headers: { "Content-Type": "application/json", ...as },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  // biome-ignore lint/suspicious/noExplicitAny: tests look into it as they like.
  return { status: response.status, body: (await response.json()) as any };
}

const replicate = (as: Headers, source: string, more: object = {}) =>
  ask("POST", "/_replicate", as, { source, target: "loot", ...more });

/** Returns the status of a replication document's job after one of its runs has ended. */
async function jobOfDocument(id: string, at = server) {
  while (!ended.delete(id)) {
    await new Promise<void>((reported) => {
      tell = reported;
    });
  }
  const as = at === server ? ROOT : {};
  return (await ask("GET", `/_scheduler/docs/_replicator/${id}`, as, undefined, at)).body;
}

const FORBIDDEN = { status: 403, body: { error: "forbidden" } };

test.each([
  ["a token", token],
  ["a proxy", async (name: string, roles?: readonly string[]) => proxied(name, roles)],
] as const)(
  "%s with an administrator's name gives a job no administrator's rights",
  async (_, as) => {
    expect(await replicate(await as("root"), "_users")).toMatchObject(FORBIDDEN);
    expect(await replicate(await as("joe"), "secret")).toMatchObject(FORBIDDEN);
    expect(await replicate(await as("unknown", ["reader"]), "secret")).toMatchObject({
      status: 200,
    });
    expect(await replicate(await as("unknown", ["_admin"]), "_users")).toMatchObject({
      status: 200,
    });
    expect(await replicate(JOE, "secret")).toMatchObject({ status: 200 });
  },
);

test("a repeated request whose token has other roles uses the new roles", async () => {
  const source = "secret";
  const body = { continuous: true, doc_ids: ["one"] };
  const first = await replicate(await token("tim", ["reader"]), source, body);
  expect(first.status).toBe(202);
  const path = `/_scheduler/jobs/${encodeURIComponent(first.body._local_id)}`;
  expect((await ask("GET", path, ROOT)).body.state).toBe("running");
  await replicate(await token("tim"), source, body);
  expect((await ask("GET", path, ROOT)).body).toMatchObject({
    state: "crashing",
    info: { error: expect.stringContaining("not allowed to access this db") },
  });
});

test("a user identified by another handler neither sees nor cancels the job of a user with the same name, and has a separate job", async () => {
  const body = { source: "secret", target: "other", continuous: true };
  const { body: joes } = await ask("POST", "/_replicate", JOE, body);
  const path = `/_scheduler/jobs/${encodeURIComponent(joes._local_id)}`;
  const cancel = { replication_id: joes._local_id, cancel: true };
  for (const as of [await token("joe", ["reader"]), proxied("joe", ["reader"])]) {
    expect((await ask("GET", path, as)).status).toBe(401);
    expect((await ask("POST", "/_replicate", as, cancel)).status).toBe(401);
    expect((await ask("POST", "/_replicate", as, { ...body, cancel: true })).status).toBe(404);
    // Starts a run as this user. If the run had the same id as joe's run, joe's job would block
    // it.
    await ask("POST", "/_replicate", as, body);
    expect((await ask("GET", path, as)).body.state).toBe("crashing");
    expect((await ask("POST", "/_replicate", as, cancel)).status).toBe(200);
  }
  expect((await ask("GET", path, JOE)).body.state).toBe("running");
});

test("a replication document keeps the rights with which its owner wrote it, even if another user changes it later", async () => {
  const copy = { source: "secret", target: "loot" };
  const place = "/_replicator/copy";
  const { body: written } = await ask("PUT", place, await token("joe"), copy);
  const refused = { state: "crashing", info: { error: expect.stringContaining("not allowed") } };
  expect(await jobOfDocument("copy")).toMatchObject(refused);
  const { body: stored } = await ask("GET", place, ROOT);
  expect(stored).toMatchObject({ owner: "joe", _rev: written.rev });
  const changed = await ask("PUT", place, ROOT, { ...stored, worker_batch_size: 7 });
  expect(changed.status).toBe(201);
  expect(await jobOfDocument("copy")).toMatchObject(refused);
  // A document that the user writes with the password has the directory user's rights.
  expect((await ask("PUT", "/_replicator/joes", JOE, copy)).status).toBe(201);
  expect(await jobOfDocument("joes")).toMatchObject({ state: "completed" });
});

test("users with the same name from different handlers can neither change each other's documents nor see their secrets", async () => {
  const tokens = await token("joe");
  const users = { directory: JOE, token: tokens, proxy: proxied("joe") };
  const target = {
    url: "http://127.0.0.1:9/x",
    auth: { basic: { username: "u", password: "s3c" } },
  };
  for (const [author, own] of Object.entries(users)) {
    const place = `/_replicator/of-${author}`;
    const { body: written } = await ask("PUT", place, own, { source: "secret", target });
    expect((await ask("GET", place, own)).body.target).toEqual(target);
    for (const [reader, as] of Object.entries(users)) {
      if (reader === author) continue;
      expect(JSON.stringify((await ask("GET", place, as)).body)).not.toContain("s3c");
      const edit = { source: "other", target, owner: "joe", _rev: written.rev };
      expect(await ask("PUT", place, as, edit)).toMatchObject(FORBIDDEN);
      expect(await ask("DELETE", `${place}?rev=${written.rev}`, as)).toMatchObject(FORBIDDEN);
      const leaf = { ...edit, _id: `of-${author}`, _rev: "1-ffffffffffffffffffffffffffffffff" };
      const bulk = { docs: [leaf], new_edits: false };
      const refused = await ask("POST", "/_replicator/_bulk_docs", as, bulk);
      expect(refused.body).toMatchObject([{ error: "forbidden" }]);
      expect((await ask("GET", `${place}?conflicts=true`, ROOT)).body._conflicts).toBeUndefined();
    }
    expect((await ask("DELETE", `${place}?rev=${written.rev}`, own)).status).toBe(200);
  }
});

test("once its owner is deleted from the directory, a job crashes even if a security object names the owner; a token user with this name can still replicate", async () => {
  const user = { name: "may", type: "user", roles: [], password: "pw" };
  const place = "/_users/org.couchdb.user:may";
  const { body: created } = await ask("PUT", place, ROOT, user);
  await ask("PUT", "/named", ROOT, {});
  await ask("PUT", "/named/_security", ROOT, { members: { names: ["may"], roles: [] } });
  const copy = { source: "named", target: "other", continuous: true };
  await ask("PUT", "/_replicator/mays", password("may", "pw"), copy);
  expect((await ask("DELETE", `${place}?rev=${created.rev}`, ROOT)).status).toBe(200);
  await ask("PUT", "/named/one", ROOT, {});
  expect(await jobOfDocument("mays")).toMatchObject({
    state: "crashing",
    info: { error: 'forbidden: the owner "may" is no longer a user' },
  });
  expect(await replicate(await token("may"), "named")).toMatchObject({ status: 200 });
});

test("without administrators, a job whose owner is not in the directory can use public databases", async () => {
  for (const name of ["a", "b", "_replicator"]) await ask("PUT", `/${name}`, {}, undefined, party);
  for (const name of ["a", "b"]) await ask("PUT", `/${name}/_security`, {}, {}, party);
  const copy = { source: "a", target: "b", owner: "tim" };
  await ask("PUT", "/_replicator/tims", {}, copy, party);
  expect(await jobOfDocument("tims", party)).toMatchObject({ state: "completed" });
});

test("a job that refers to a secret stops sending requests once its author is no longer an administrator", async () => {
  const seen: unknown[] = [];
  const far = createServer((request, response) => {
    seen.push(request.headers["x-key"]);
    response.writeHead(500).end();
  });
  await new Promise<void>((listening) => far.listen(0, "127.0.0.1", listening));
  const { port } = far.address() as AddressInfo;
  const admins = "/_node/_local/_config/admins/boss";
  try {
    await ask("PUT", admins, ROOT, "pw" as never);
    const source = { url: `http://127.0.0.1:${port}/a`, headers: { "x-key": "env:CREDENTIAL_A" } };
    const body = { source, target: "loot", retries_per_request: 0 };
    expect((await ask("PUT", "/_replicator/boss", password("boss", "pw"), body)).status).toBe(201);
    await jobOfDocument("boss");
    expect(new Set(seen)).toEqual(new Set(["resolved-a"]));
    expect((await ask("DELETE", admins, ROOT)).status).toBe(200);
    const user = { name: "boss", type: "user", roles: [], password: "pw" };
    await ask("PUT", "/_users/org.couchdb.user:boss", ROOT, user);
    seen.splice(0);
    await ask("POST", "/_tandem/jobs/_replicator%2Fboss/_retry", ROOT);
    expect(await jobOfDocument("boss")).toMatchObject({
      info: { error: expect.stringContaining("its author is not a server admin") },
    });
    expect(seen).toEqual([]);
  } finally {
    await new Promise((closed) => far.close(closed));
  }
});
