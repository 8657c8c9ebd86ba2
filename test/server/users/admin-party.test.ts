/** A node without administrators treats every client on its machine as an administrator. */
import { type OutgoingHttpHeaders, request } from "node:http";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openServer, type RunningServer, readConfig } from "../../../src/server/index.ts";

let server: RunningServer;

beforeAll(async () => {
  server = await openServer(readConfig({ port: 0, store: "memory" }, {}), { event() {} });
});

afterAll(() => server.stop());

/** Resolves to the status. Unlike `fetch`, this function lets the caller choose the Host header. */
function ask(method: string, path: string, headers: OutgoingHttpHeaders): Promise<number> {
  return new Promise((resolve, reject) => {
    const asked = request(`${server.url}${path}`, { method, headers }, (answer) => {
      answer.resume();
      answer.once("end", () => resolve(answer.statusCode ?? 0));
    });
    asked.once("error", reject);
    asked.end();
  });
}

test.each([
  "127.0.0.1",
  "127.0.0.1:80",
  "127.8.9.10:5984",
  "localhost",
  "LocalHost.:5984",
  "tandem.localhost:5984",
  "[::1]",
  "[0:0:0:0:0:0:0:1]:5984",
  "[::ffff:127.0.0.1]:5984",
])("a node without administrators accepts the loopback host %s", async (host) => {
  expect(await ask("GET", "/_all_dbs", { Host: host })).toBe(200);
});

test.each([
  "evil.example",
  "evil.example:5984",
  "localhost.evil.example",
  "127.0.0.1.evil.example",
  "evillocalhost",
  "127.0.0.1@evil.example",
  "evil.example#127.0.0.1",
  "192.168.0.1",
  "0.0.0.0",
  "[::]",
  "[fe80::1]",
])(
  "a node without administrators refuses reads and writes if the request's host is %j",
  async (host) => {
    for (const [method, path] of [
      ["PUT", "/films"],
      ["PUT", "/_node/_local/_config/log/level"],
      ["GET", "/_all_dbs"],
      ["POST", "/_session"],
    ] as const) {
      expect(await ask(method, path, { Host: host })).toBe(403);
    }
  },
);

test("a node without administrators refuses a foreign host, even in X-Forwarded-Host or in a request with credentials", async () => {
  const forwarded = { Host: "127.0.0.1", "X-Forwarded-Host": "evil.example" };
  expect(await ask("GET", "/_all_dbs", forwarded)).toBe(403);
  const named = { Host: "evil.example", Authorization: `Basic ${btoa("any:thing")}` };
  expect(await ask("GET", "/_all_dbs", named)).toBe(403);
});

test("a node with an administrator accepts any host", async () => {
  const config = readConfig(
    { port: 0, store: "memory" },
    { COUCHDB_USER: "root", COUCHDB_PASSWORD: "secret" },
  );
  const guarded = await openServer(config, { event() {} });
  try {
    const response = await fetch(`${guarded.url}/`, {
      headers: { "X-Forwarded-Host": "couch.example" },
    });
    expect(response.status).toBe(200);
  } finally {
    await guarded.stop();
  }
});
