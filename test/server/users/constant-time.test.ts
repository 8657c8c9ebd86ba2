/** The time to compare two secrets does not depend on the position of their first difference. */
import crypto from "node:crypto";
import { syncBuiltinESMExports } from "node:module";
import { afterAll, beforeAll, beforeEach, expect, type MockInstance, test, vi } from "vitest";
import { openServer, type RunningServer, readConfig } from "../../../src/server/index.ts";

let server: RunningServer;
let compared: MockInstance<typeof crypto.timingSafeEqual>;

beforeAll(async () => {
  compared = vi.spyOn(crypto, "timingSafeEqual");
  syncBuiltinESMExports();
  const admin = { COUCHDB_USER: "root", COUCHDB_PASSWORD: "secret" };
  const { configuration, ...config } = readConfig({ port: 0, store: "memory" }, admin);
  const handlers = ["proxy", "cookie", "default"];
  configuration.set(
    "chttpd",
    "authentication_handlers",
    handlers.map((name) => `{chttpd_auth, ${name}_authentication_handler}`).join(", "),
  );
  configuration.set("chttpd_auth", "proxy_use_secret", "true");
  configuration.set("chttpd_auth", "secret", "shared");
  configuration.set("chttpd_auth", "iterations", "10");
  configuration.set("chttpd_auth", "upgrade_hash_on_auth", "false");
  server = await openServer({ ...config, configuration }, { event() {} });
  for (const [name, more] of [
    ["slow", { password: "pw" }],
    ["old", { password_scheme: "simple", salt: "s", password_sha: "0".repeat(40) }],
  ] as const) {
    const body = JSON.stringify({ name, type: "user", roles: [], ...more });
    const headers = { ...basic("root:secret"), "Content-Type": "application/json" };
    const path = `/_users/org.couchdb.user:${name}`;
    const { status } = await fetch(server.url + path, { method: "PUT", headers, body });
    expect(status).toBe(201);
  }
});

afterAll(async () => {
  await server.stop();
  compared.mockRestore();
  syncBuiltinESMExports();
});

beforeEach(() => {
  compared.mockClear();
});

function basic(pair: string): Record<string, string> {
  return { Authorization: `Basic ${Buffer.from(pair).toString("base64")}` };
}

const cookie = Buffer.from(`slow:${"7".repeat(8)}:${"x".repeat(32)}`).toString("base64url");

test.each([
  ["the password of an administrator", basic("root:wrong")],
  ["a password hashed by PBKDF2", basic("slow:wrong")],
  ["a password hashed by SHA-1", basic("old:wrong")],
  ["a proxy's token", { "X-Auth-CouchDB-UserName": "pat", "X-Auth-CouchDB-Token": "0" }],
  ["the signature of a cookie", { Cookie: `AuthSession=${cookie}` }],
])("%s is compared in constant time", async (_, headers: Record<string, string>) => {
  const answer = await fetch(`${server.url}/_session`, { headers });
  const { userCtx = { name: null } } = (await answer.json()) as { userCtx?: { name: unknown } };
  expect(userCtx.name).toBe(null);
  expect(compared.mock.results[0]).toEqual({ type: "return", value: false });
});
