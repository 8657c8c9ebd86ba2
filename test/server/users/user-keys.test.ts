/** Session cookies and proxy tokens, which are both derived from one secret. */
import { createHmac } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openServer, type RunningServer, readConfig } from "../../../src/server/index.ts";

const SECRET = "shared with a proxy";
const ROOT = "root:secret";

let server: RunningServer;

beforeAll(async () => {
  const admin = { COUCHDB_USER: "root", COUCHDB_PASSWORD: "secret" };
  const config = readConfig({ port: 0, store: "memory" }, admin);
  const { configuration } = config;
  const handlers = ["proxy", "cookie", "default"].map(
    (name) => `{chttpd_auth, ${name}_authentication_handler}`,
  );
  configuration.set("chttpd", "authentication_handlers", handlers.join(", "));
  configuration.set("chttpd_auth", "proxy_use_secret", "true");
  configuration.set("chttpd_auth", "iterations", "10");
  configuration.set("chttpd_auth", "secret", SECRET);
  server = await openServer(config, { event() {} });
});

afterAll(() => server.stop());

async function ask(method: string, path: string, headers: Record<string, string>, body?: object) {
  const response = await fetch(`${server.url}${path}`, {
    method,
    headers: { "Content-Type": "application/json", ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  // biome-ignore lint/suspicious/noExplicitAny: tests look into it as they like.
  const json = (await response.json()) as any;
  return { status: response.status, json, cookie: response.headers.get("set-cookie") ?? "" };
}

const basic = (pair: string) => ({ Authorization: `Basic ${btoa(pair)}` });

async function nameOf(headers: Record<string, string>): Promise<string | null> {
  return (await ask("GET", "/_session", headers)).json.userCtx.name;
}

const proxied = (name: string, token: string) => ({
  "X-Auth-CouchDB-UserName": name,
  "X-Auth-CouchDB-Token": token,
});

test.each(["sha1", "sha256"])(
  "a proxy can compute %s tokens from the secret, as with CouchDB",
  async (hash) => {
    const token = createHmac(hash, SECRET).update("pat").digest("hex");
    expect(await nameOf(proxied("pat", token))).toBe("pat");
  },
);

test("the signature of a session is not a valid proxy token, whatever the salt", async () => {
  const login = await ask("POST", "/_session", {}, { name: "root", password: "secret" });
  const value = /^AuthSession=([^;]+)/.exec(login.cookie)?.[1] ?? "";
  const bytes = Buffer.from(value, "base64url");
  const text = bytes.subarray(0, -33).toString();
  const token = bytes.subarray(-32).toString("hex");
  expect(text).toMatch(/^root:[0-9A-F]+$/);
  expect(await nameOf(proxied(text, token))).toBeNull();
  expect(await nameOf({ Cookie: `AuthSession=${value}` })).toBe("root");
});

test("if no secret is configured, every proxy token is invalid", async () => {
  const path = "/_node/_local/_config/chttpd_auth/secret";
  await fetch(`${server.url}${path}`, { method: "DELETE", headers: basic(ROOT) });
  for (const key of ["", SECRET, "undefined"]) {
    const token = createHmac("sha256", key).update("pat").digest("hex");
    expect(await nameOf(proxied("pat", token))).toBeNull();
  }
});

test("an empty salt is refused, and is never stored with a new password", async () => {
  const path = "/_users/org.couchdb.user:sal";
  const user = { name: "sal", type: "user", roles: [] };
  const hashed = { password_scheme: "simple", salt: "", password_sha: "0".repeat(40) };
  expect(await ask("PUT", path, basic(ROOT), { ...user, ...hashed })).toMatchObject({
    status: 403,
    json: { reason: "salt must not be empty." },
  });
  const kept = { ...user, password: "pw", preserve_salt: true, salt: "" };
  expect((await ask("PUT", path, basic(ROOT), kept)).status).toBe(201);
  const { salt } = (await ask("GET", path, basic(ROOT))).json;
  expect(salt).toMatch(/^[0-9a-f]{32}$/);
});
