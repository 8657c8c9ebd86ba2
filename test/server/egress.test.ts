/** Tests `[replicator.egress]` from the configuration to its effect on the state of a job. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openServer, type RunningServer, readConfig } from "../../src/server/index.ts";
import { call } from "../support/open-process.ts";

let server: RunningServer;
let announce: (name: string, fields?: Readonly<Record<string, unknown>>) => void = () => {};
const ask = (method: string, path: string, body?: unknown) =>
  call(`${server.url}${path}`, method, body);
const setRule = (key: string, text: string) =>
  ask("PUT", `/_node/_local/_config/replicator.egress/${key}`, JSON.stringify(text));

beforeAll(async () => {
  const config = readConfig({ port: 0, store: "memory" }, {});
  server = await openServer(config, { event: (name, fields) => announce(name, fields) });
  await ask("PUT", "/a");
  await ask("PUT", "/a/doc", {});
  await ask("PUT", "/b");
});

afterAll(() => server.stop());

const METADATA =
  'the address 169.254.169.254 is denied by the rule "169.254.0.0/16", ' +
  "a default of [replicator.egress] deny; to permit the host, add it to [replicator.egress] allow";

test("the job of a replication document crashes with a reason if its connection is forbidden", async () => {
  const crashed = new Promise<unknown>((resolve) => {
    announce = (name, fields) => name === "replication.ended" && resolve(fields?.state);
  });
  await ask("PUT", "/_replicator/out", { source: "http://169.254.169.254/a", target: "b" });
  expect(await crashed).toBe("crashing");
  const { body } = await ask("GET", "/_scheduler/docs/_replicator/out");
  expect(body).toMatchObject({
    state: "crashing",
    error_count: 1,
    info: { error: `egress_denied: ${METADATA}` },
  });
});

test("a `_replicate` request for a forbidden connection gets status 403 and the reason", async () => {
  const body = { source: "a", target: "http://169.254.169.254/b" };
  expect(await ask("POST", "/_replicate", body)).toMatchObject({
    status: 403,
    body: { error: "egress_denied", reason: METADATA },
  });
});

test("a change to the egress rules takes effect immediately", async () => {
  const source = `${server.url}/a`;
  expect((await ask("POST", "/_replicate", { source, target: "b" })).status).toBe(200);
  expect((await setRule("deny", "127.0.0.0/8, example.com")).status).toBe(200);
  const denied = await ask("POST", "/_replicate", { source, target: "b" });
  expect(denied.body.reason).toBe(
    'the address 127.0.0.1 is denied by the rule "127.0.0.0/8" of [replicator.egress] deny',
  );
  expect((await setRule("deny", "")).status).toBe(200);
  expect((await setRule("allow", "*:1, [::1]:5984")).status).toBe(200);
  expect((await ask("POST", "/_replicate", { source, target: "b" })).status).toBe(403);
  expect((await setRule("allow", "127.0.0.1")).status).toBe(200);
  expect((await ask("POST", "/_replicate", { source, target: "b" })).status).toBe(200);
});

test("`connect_to` takes effect immediately, and egress rules apply to both the requested and the substituted address", async () => {
  const setTo = (text: string) =>
    ask("PUT", "/_node/_local/_config/replicator/connect_to", JSON.stringify(text));
  const { port } = new URL(server.url as string);
  const body = { source: "http://127.0.0.9:5984/a", target: "b" };
  expect((await setTo(`127.0.0.9:5984:127.0.0.1:${port}`)).status).toBe(200);
  expect((await setRule("allow", "127.0.0.9")).status).toBe(200);
  expect((await ask("POST", "/_replicate", body)).body.reason).toContain("127.0.0.1");
  expect((await setRule("allow", "127.0.0.9, 127.0.0.1")).status).toBe(200);
  expect(await ask("POST", "/_replicate", body)).toMatchObject({ status: 200 });
  expect((await setTo("*.invalid:5984")).body.reason).toContain(
    "[replicator] connect_to = *.invalid:5984: expected host:port:target_host:target_port",
  );
  await setRule("allow", "");
  await setTo("");
  expect((await ask("POST", "/_replicate", body)).status).toBe(500);
});

test("an invalid egress rule is refused, and the error explains the accepted syntax", async () => {
  const { status, body } = await setRule("deny", "example.com, 10.0.0.0/33");
  expect([status, body.error]).toEqual([400, "bad_request"]);
  const expected = "[replicator.egress] deny = 10.0.0.0/33: expected names (example.com, ";
  expect(body.reason.slice(0, expected.length)).toBe(expected);
  const folder = mkdtempSync(join(tmpdir(), "tandem-egress-"));
  const configFile = join(folder, "tandem.ini");
  writeFileSync(configFile, "[replicator.egress]\nallow = http://example.com\n");
  const start = () => readConfig({ configFile, store: "memory" }, {});
  expect(start).toThrow("[replicator.egress] allow = http://example.com: expected names");
  rmSync(folder, { recursive: true });
});
