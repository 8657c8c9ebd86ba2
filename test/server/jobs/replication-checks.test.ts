/** A whole node checks a replication before the replication is created. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openServer, type RunningServer, readConfig } from "../../../src/server/index.ts";
import { closedPort } from "../../support/closed-port.ts";

const ROOT = "root:secret";
const JOE = "joe:pw";
const RITA = "rita:pw";
const OPEN = { state: "open", class: null, error: null, reason: null };

let server: RunningServer;
let silent: Server;

async function ask(method: string, path: string, as: string | undefined, body?: unknown) {
  const authorization = as && { Authorization: `Basic ${Buffer.from(as).toString("base64")}` };
  const response = await fetch(`${server.url}${path}`, {
    method,
    headers: { "Content-Type": "application/json", ...authorization },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  // biome-ignore lint/suspicious/noExplicitAny: tests look into it as they like.
  return { status: response.status, json: (await response.json()) as any };
}

const CHECK = "/_tandem/replications/_check";

const check = async (document: object, as = ROOT) => (await ask("POST", CHECK, as, document)).json;

/** Returns an endpoint at this server, with these credentials. */
function remote(name: string, username: string, password: string) {
  return { url: `${server.url}/${name}`, auth: { basic: { username, password } } };
}

beforeAll(async () => {
  const config = readConfig(
    // Jobs do not run, so that their states stay the same.
    { port: 0, store: "memory" },
    { COUCHDB_USER: "root", COUCHDB_PASSWORD: "secret" },
  );
  config.configuration.set("replicator", "max_jobs", "0");
  config.configuration.set("chttpd_auth", "iterations", "10");
  config.configuration.set("chttpd_auth_lockout", "mode", "off");
  server = await openServer(config, { event() {} });
  for (const [name, roles] of [
    ["joe", []],
    ["rita", ["_tandem_reader"]],
  ] as const) {
    const user = { name, type: "user", roles, password: "pw" };
    await ask("PUT", `/_users/org.couchdb.user:${name}`, ROOT, user);
  }
  for (const name of ["films", "open", "hidden"]) await ask("PUT", `/${name}`, ROOT);
  for (const name of ["one", "two"]) await ask("PUT", `/films/${name}`, ROOT, {});
  await ask("PUT", "/open/_security", ROOT, {});
  await ask("PUT", "/_replicator/_security", ROOT, {});
  silent = createServer(() => {});
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
});

afterAll(async () => {
  silent.closeAllConnections();
  await new Promise((resolve) => silent.close(resolve));
  await server.stop();
});

test("a document that exceeds the maximum length is not checked", async () => {
  const document = { source: "films", target: "open", pad: "x".repeat(2_000_000) };
  expect(await ask("POST", CHECK, ROOT, document)).toMatchObject({
    status: 413,
    json: { error: "too_large" },
  });
});

test("the check of a valid request succeeds, and writes nothing", async () => {
  const before = (await ask("GET", "/_replicator", ROOT)).json;
  const document = { _id: "fine", source: remote("films", "root", "secret"), target: "open" };
  expect(await check(document)).toEqual({
    ok: true,
    error: null,
    reason: null,
    faults: [],
    name_taken: false,
    source: { ...OPEN, changes: 2 },
    target: { ...OPEN, changes: null },
    job: null,
  });
  const after = (await ask("GET", "/_replicator", ROOT)).json;
  expect([after.doc_count, after.update_seq]).toEqual([before.doc_count, before.update_seq]);
  expect((await ask("GET", "/_tandem/jobs?limit=0", ROOT)).json.total_rows).toBe(0);
});

test("a target may be missing if the replication creates it, and must exist otherwise", async () => {
  const target = remote("later", "root", "secret");
  const made = await check({ source: "films", target, create_target: true });
  expect([made.ok, made.target.state]).toEqual([true, "new"]);
  const missing = await check({ source: "films", target });
  expect([missing.ok, missing.target.state, missing.target.class]).toEqual([
    false,
    "failed",
    "not_found",
  ]);
  expect((await ask("GET", "/later", ROOT)).status).toBe(404);
});

test("a check reports each invalid member, and whether each endpoint is reachable", async () => {
  const document = { source: "films", target: 5, worker_batch_size: "many", continuous: 1 };
  const checked = await check(document);
  expect([...checked.faults].sort()).toEqual([
    "`target` must be a string or an object",
    '`worker_batch_size` must be an integer of at least 1, but is "many"',
    "parameter `continuous` must be a boolean",
  ]);
  expect([checked.ok, checked.error, checked.source.state, checked.target]).toEqual([
    false,
    "forbidden",
    "open",
    null,
  ]);
  const { json } = await ask("PUT", "/_replicator/bad", ROOT, document);
  expect(json).toEqual({ error: checked.error, reason: checked.reason });
});

test("a check reports an endpoint that cannot be opened, with the same reason as a run", async () => {
  const away = `http://127.0.0.1:${await closedPort()}/films`;
  const wrong = remote("films", "joe", "wrong");
  const refused = await check({ source: away, target: wrong });
  expect(refused.source).toMatchObject({ state: "failed", class: "unreachable" });
  expect(refused.target).toMatchObject({ state: "failed", class: "unauthorized" });
  const hidden = await check({ source: remote("hidden", "joe", "pw"), target: "open" });
  expect(hidden.source).toMatchObject({ state: "failed", class: "forbidden" });
  await ask("PUT", "/_node/_local/_config/replicator.egress/deny", ROOT, "127.0.0.2");
  const denied = await check({ source: "http://127.0.0.2/films", target: "open" });
  expect(denied.source).toMatchObject({
    state: "failed",
    class: "egress",
    reason: 'the address 127.0.0.2 is denied by the rule "127.0.0.2" of [replicator.egress] deny',
  });
  expect(JSON.stringify([refused, hidden, denied])).not.toMatch(/wrong|pw/);
});

test("a check waits a few seconds for an unresponsive server, and the number of waiting checks is limited", async () => {
  const { port } = silent.address() as AddressInfo;
  const source = `http://127.0.0.1:${port}/films`;
  const all = await Promise.all(
    Array.from({ length: 9 }, () => ask("POST", CHECK, ROOT, { source, target: "open" })),
  );
  const statuses = all.map(({ status }) => status).sort();
  expect(statuses).toEqual([...Array.from({ length: 8 }, () => 200), 503]);
  const waited = all.find(({ status }) => status === 200);
  expect(waited?.json.source).toMatchObject({
    state: "failed",
    class: "timeout",
    reason: expect.stringContaining("has not answered within 5 s"),
  });
  expect(waited?.json.target.state).toBe("open");
});

test("a check reports an existing document name, and another job with the same replication, but not the document's own job", async () => {
  const document = { source: "films", target: "open", continuous: true };
  const { json: written } = await ask("PUT", "/_replicator/first", ROOT, document);
  const taken = await check({ _id: "first", source: "films", target: "hidden" });
  expect([taken.ok, taken.name_taken, taken.error, taken.job]).toEqual([
    false,
    true,
    "conflict",
    null,
  ]);
  const twin = await check({ _id: "second", ...document });
  expect([twin.ok, twin.name_taken, twin.error]).toEqual([false, false, null]);
  expect(twin.job).toMatchObject({ database: "_replicator", doc_id: "first", state: "pending" });
  const edit = await check({ _id: "first", _rev: written.rev, ...document });
  expect([edit.ok, edit.name_taken, edit.job]).toEqual([true, false, null]);
});

test("a check queries endpoints with the rights of the document's owner, and only for users who may write the document", async () => {
  const source = {
    url: `${server.url}/films`,
    auth: { basic: { username: "root", password: "secret" } },
  };
  await ask("PUT", "/_replicator/roots", ROOT, { source, target: "open" });
  const { json: stored } = await ask("GET", "/_replicator/roots", ROOT);
  const masked = {
    ...stored,
    source: { url: source.url, auth: { basic: { username: "root", password: "*****" } } },
  };
  expect((await check(masked)).source.state).toBe("open");
  const others = await check({ ...masked, owner: "joe" }, JOE);
  expect([others.error, others.source, others.target]).toEqual(["forbidden", null, null]);

  const own = await check({ source: "films", target: "open" }, JOE);
  expect(own.source).toMatchObject({ state: "failed", class: "forbidden" });
  expect(own.target.state).toBe("open");
  const joes = await check({ owner: "joe", source: "films", target: "open" });
  expect(joes.source).toMatchObject({ state: "failed", class: "forbidden" });
  const reference = {
    url: source.url,
    auth: { basic: { username: "root", password: "env:HOME" } },
  };
  const asked = await check({ source: reference, target: "open" }, JOE);
  expect([asked.error, asked.source]).toEqual(["forbidden", null]);
});

test("users who may not write replication documents may not check them", async () => {
  const document = { source: "films", target: "open" };
  expect((await ask("POST", CHECK, RITA, document)).status).toBe(403);
  expect((await ask("POST", CHECK, undefined, document)).status).toBe(401);
  await ask("PUT", "/team%2f_replicator", ROOT);
  const inTeam = `${CHECK}?database=team%2f_replicator`;
  expect((await ask("POST", inTeam, JOE, document)).status).toBe(403);
  expect((await ask("POST", inTeam, ROOT, document)).json.ok).toBe(true);
  expect((await ask("POST", `${CHECK}?database=films`, ROOT, document)).json.error).toBe(
    "not_a_replicator",
  );
  expect((await ask("POST", `${CHECK}?database=none`, ROOT, document)).status).toBe(404);
});

test("to users who are not administrators, a check shows only their own jobs and the jobs of the checked database", async () => {
  await ask("PUT", "/team%2f_replicator", ROOT);
  const document = { source: remote("films", "root", "secret"), target: "open", continuous: true };
  await ask("PUT", "/team%2f_replicator/theirs", ROOT, { ...document, owner: "root" });
  expect((await check(document)).job).toMatchObject({ doc_id: "theirs" });
  const seen = await check(document, JOE);
  expect(seen.job).toBeNull();
  expect(JSON.stringify(seen)).not.toMatch(/theirs|team/);
});

test("a check does not reveal an existing document name to users who may not read the document", async () => {
  await ask("PUT", "/_node/_local/_config/couchdb/users_db_security_editable", ROOT, "true");
  await ask("PUT", "/_users/_security", ROOT, {});
  const users = `${CHECK}?database=_users`;
  for (const name of ["rita", "unknown"]) {
    const body = { _id: `org.couchdb.user:${name}`, source: "films", target: "open" };
    const { json } = await ask("POST", users, JOE, body);
    expect(json.name_taken).toBe(false);
  }
});

test("users who are not administrators cannot scan ports with checks", async () => {
  const web = createServer((_, response) => response.writeHead(404).end("<p>"));
  await new Promise<void>((resolve) => web.listen(0, "127.0.0.1", resolve));
  try {
    const ports = [
      await closedPort(),
      (silent.address() as AddressInfo).port,
      (web.address() as AddressInfo).port,
    ];
    for (const port of ports) {
      const url = `http://127.0.0.1:${port}/films`;
      const asked = [
        { source: url, target: "open" },
        { source: "open", target: url, create_target: true },
      ];
      const [source, target] = await Promise.all(asked.map((document) => check(document, JOE)));
      const reason = `no CouchDB server responds at ${url}/`;
      const hidden = { state: "failed", class: "unreachable", error: "unreachable", reason };
      expect([source.source, target.target]).toEqual([
        { ...hidden, changes: null },
        { ...hidden, changes: null },
      ]);
    }
  } finally {
    web.closeAllConnections();
    await new Promise((resolve) => web.close(resolve));
  }
  const wrong = await check({ source: remote("films", "joe", "wrong"), target: "open" }, JOE);
  expect(wrong.source).toMatchObject({ state: "failed", class: "unauthorized" });
});
