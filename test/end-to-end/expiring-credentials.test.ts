/**
 * Jobs log in with expiring tokens at a CouchDB behind a proxy that accepts only valid tokens. A
 * token endpoint issues the tokens, or another program writes the tokens to a file.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { renameSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type HttpProxy, openHttpProxy } from "../support/faults/http-proxy.ts";
import { secretsIn } from "../support/find-secrets.ts";
import { Processes, type TandemProcess } from "../support/open-process.ts";
import { MAIN, tandem } from "../support/tandem-command.ts";

const CLIENT = "jobs & co";
const SECRET = "Kw7-client+secret";
const ASSERTIONS = ["Kw7.first.assertion", "Kw7.second.assertion"];
const FILE_TOKENS = ["Kw7-first-token-of-file", "Kw7-second-token-of-file"];

const processes = new Processes();
const directory = processes.directory();
const tokenFile = join(directory, "token");
const assertionFile = join(directory, "assertion");
let there: TandemProcess;
let here: TandemProcess;
let proxy: HttpProxy;
let identityProvider: Awaited<ReturnType<typeof openIdentityProvider>>;

/** A token endpoint. Each token is valid until it expires or the test revokes it. */
async function openIdentityProvider() {
  const issued: { readonly token: string; readonly endsMs: number }[] = [];
  const forms: URLSearchParams[] = [];
  let revokedCount = 0;
  let failures = 0;
  const server = createServer(async (incoming, outgoing) => {
    let body = "";
    for await (const chunk of incoming) body += chunk;
    const form = new URLSearchParams(body);
    const send = (status: number, answer: object) =>
      outgoing
        .writeHead(status, { "content-type": "application/json" })
        .end(JSON.stringify(answer));
    const { authorization } = incoming.headers;
    const isClient = authorization === `Basic ${btoa("jobs+%26+co:Kw7-client%2Bsecret")}`;
    const assertion = form.get("client_assertion");
    if (failures > 0) {
      failures--;
      return send(503, {
        error: "temporarily_unavailable",
        error_description: `try ${SECRET} later`,
      });
    }
    if (!isClient && assertion === null) {
      return send(401, { error: "invalid_client", error_description: `not ${authorization}` });
    }
    forms.push(form);
    const token = `Kw7-token-${issued.length + 1}`;
    issued.push({ token, endsMs: Date.now() + opened.lifeSec * 1000 });
    return send(200, { access_token: token, token_type: "Bearer", expires_in: opened.lifeSec });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const opened = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/token`,
    /** Lifetime of new tokens. */
    lifeSec: 2,
    issued,
    forms,
    fail(count: number) {
      failures = count;
    },
    revoke() {
      revokedCount = issued.length;
    },
    isValid: (token: string) => {
      const at = issued.findIndex((each) => each.token === token);
      return at >= revokedCount && (issued[at]?.endsMs ?? 0) > Date.now();
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
  return opened;
}

/** Tokens that the proxy accepts, in addition to valid tokens of the token endpoint. */
let accepted: readonly string[] = [];
let rejectedCount = 0;
/** Redirect target for requests for the database `moved`. */
let location = "";

beforeAll(async () => {
  there = await processes.open({
    environment: { COUCHDB_USER: "jan", COUCHDB_PASSWORD: "of the other server" },
  });
  [proxy, identityProvider] = await Promise.all([openHttpProxy(there.url), openIdentityProvider()]);
  const authorization = `Basic ${btoa("jan:of the other server")}`;
  proxy.intercept((request, forward) => {
    const [, token = ""] = /^Bearer (.*)$/.exec(request.headers.authorization ?? "") ?? [];
    if (request.path.startsWith("/moved")) {
      return Promise.resolve({ status: 307, headers: { location }, body: "" });
    }
    if (identityProvider.isValid(token) || accepted.includes(token)) {
      return forward({ ...request, headers: { ...request.headers, authorization } });
    }
    rejectedCount++;
    const body = `{"error":"unauthorized","reason":"no valid token: ${token}"}`;
    return Promise.resolve({ status: 401, body });
  });
  here = await processes.open({
    directory,
    ini: `[admins]
admin = admin
[replicator]
min_backoff_penalty_sec = 1
session_min_update_interval = 0
[identities]
couch = ${tokenFile} ${proxy.url}
client = ${assertionFile} ${new URL(identityProvider.url).origin}
`,
  });
  await askThere("PUT", "/films");
});
afterAll(async () => {
  await processes.close();
  await Promise.all([proxy.close(), identityProvider.close()]);
});

function asking(url: () => string, user: string) {
  return async (method: string, path: string, body?: object) => {
    const response = await fetch(url() + path, {
      method,
      headers: { "content-type": "application/json", authorization: `Basic ${btoa(user)}` },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, text, body: JSON.parse(text) };
  };
}
const ask = asking(() => here.url, "admin:admin");
const askThere = asking(() => there.url, "jan:of the other server");

const oauth2 = (members: object = {}) => ({
  url: `${proxy.url}/films`,
  auth: {
    oauth2: {
      token_url: identityProvider.url,
      client_id: CLIENT,
      client_secret: SECRET,
      scope: "films:read",
      ...members,
    },
  },
});

let filmCount = 0;
/** Writes a document at the source and waits until it is in the copy. */
async function film(copy: string): Promise<void> {
  const id = `film-${++filmCount}`;
  expect((await askThere("PUT", `/films/${id}`, {})).status).toBe(201);
  await here.onceAnswered(
    () => ask("GET", `/${copy}/${id}`),
    ({ status }) => status === 200,
  );
}

async function follow(name: string, source: object): Promise<void> {
  const document = { source, target: name, create_target: true, continuous: true };
  expect((await ask("PUT", `/_replicator/${name}`, document)).status).toBe(201);
  await film(name);
}

const errorCount = async (name: string): Promise<number> =>
  (await ask("GET", `/_scheduler/docs/_replicator/${name}`)).body.error_count;

test("ten jobs with the same OAuth client share one token", async () => {
  const names = Array.from({ length: 10 }, (_, number) => `shared-${number}`);
  identityProvider.lifeSec = 3600;
  for (const name of names) {
    const source = oauth2({ scope: "films:read films:list" });
    const document = { source, target: name, create_target: true };
    expect((await ask("PUT", `/_replicator/${name}`, document)).status).toBe(201);
  }
  await here.onceAnswered(
    () => ask("GET", "/_scheduler/docs?states=completed"),
    ({ body }) => body.total_rows === names.length,
  );
  expect(identityProvider.issued).toHaveLength(1);
  const [form] = identityProvider.forms;
  expect(Object.fromEntries(form ?? [])).toEqual({
    grant_type: "client_credentials",
    scope: "films:read films:list",
  });
  identityProvider.lifeSec = 2;
});

test("a continuous job requests a new token if a token expires or is revoked, even if the token endpoint fails temporarily", async () => {
  await follow("followed", oauth2());
  const first = identityProvider.issued.length;
  while (identityProvider.issued.length < first + 2) await film("followed");
  const rejectedBefore = rejectedCount;
  identityProvider.revoke();
  await film("followed");
  expect(rejectedCount).toBeGreaterThan(rejectedBefore);
  expect(await errorCount("followed")).toBe(0);
  identityProvider.fail(2);
  const second = identityProvider.issued.length;
  while (identityProvider.issued.length < second + 1) await film("followed");
  await film("followed");
  expect((await ask("DELETE", await revOf("followed"))).status).toBe(200);
});

async function revOf(name: string): Promise<string> {
  const { body } = await ask("GET", `/_replicator/${name}`);
  return `/_replicator/${name}?rev=${body._rev}`;
}

test("a job uses the new token when its token file changes, and sends the token to no other server", async () => {
  const write = (file: string, text = "") => {
    writeFileSync(`${file}.new`, `${text}\n`);
    renameSync(`${file}.new`, file);
  };
  write(tokenFile, FILE_TOKENS[0]);
  accepted = FILE_TOKENS.slice(0, 1);
  const bearer = { bearer: { token: "identity:couch" } };
  await follow("identified", { url: `${proxy.url}/films`, auth: bearer });
  write(tokenFile, FILE_TOKENS[1]);
  accepted = FILE_TOKENS.slice(1);
  await film("identified");
  expect(await errorCount("identified")).toBe(0);
  expect((await ask("DELETE", await revOf("identified"))).status).toBe(200);

  write(assertionFile, ASSERTIONS[0]);
  const client = { client_secret: undefined, client_assertion: "identity:client" };
  await follow("asserted", oauth2(client));
  write(assertionFile, ASSERTIONS[1]);
  const sent = () => identityProvider.forms.map((form) => form.get("client_assertion"));
  while (!sent().includes(ASSERTIONS[1] ?? "")) await film("asserted");
  expect((await ask("DELETE", await revOf("asserted"))).status).toBe(200);

  const elsewhere = { url: proxy.url.replace("127.0.0.1", "localhost"), auth: bearer };
  const reason = `identity:couch must not be sent to ${elsewhere.url}: [identities] permits it for other servers only`;
  expect(await check({ ...elsewhere, url: `${elsewhere.url}/films` })).toMatchObject({
    source: { state: "failed", error: "secret_missing", reason },
  });
  const tokenUrl = identityProvider.url.replace("127.0.0.1", "localhost");
  expect(await check(oauth2({ ...client, token_url: tokenUrl }))).toMatchObject({
    source: { state: "failed", error: "secret_missing" },
  });
  const setting = "/_node/_local/_config/identities/couch";
  expect((await ask("PUT", setting, `${tokenFile} http://evil` as never)).status).toBe(403);
});

async function check(source: object) {
  const document = { source, target: "checked", create_target: true };
  return (await ask("POST", "/_tandem/replications/_check?database=_replicator", document)).body;
}

test("a check of a replication logs in, and reports an error of the token endpoint without secrets", async () => {
  expect(await check(oauth2())).toMatchObject({ ok: true, source: { state: "open" } });
  const { source } = await check(oauth2({ client_id: "other", client_secret: "Kw7-guess" }));
  expect(source).toMatchObject({ state: "failed", class: "unauthorized", error: "unauthorized" });
  expect(source.reason).toContain(
    `401 invalid_client: the token endpoint ${identityProvider.url} responded with 401`,
  );
  expect(secretsIn(source.reason, ["Kw7-guess", btoa("other:Kw7-guess")])).toEqual([]);
  const metadata = await check(oauth2({ token_url: "http://169.254.169.254/token" }));
  expect(metadata).toMatchObject({ source: { state: "failed", error: "egress_denied" } });
});

test("a token is not sent to another server after a redirect", async () => {
  const elsewhere = await openHttpProxy(there.url);
  location = `${elsewhere.url}/films/`;
  const { source } = await check({ ...oauth2(), url: `${proxy.url}/moved` });
  expect(source).toMatchObject({ state: "failed", error: "unauthorized" });
  expect(elsewhere.requests.length).toBeGreaterThan(0);
  expect(elsewhere.requests.filter(({ headers }) => headers.authorization !== undefined)).toEqual(
    [],
  );
  await elsewhere.close();
});

test("users who are not server admins may not name an identity", async () => {
  const name = "org.couchdb.user:sue";
  await ask("PUT", `/_users/${name}`, { name: "sue", password: "sue", roles: [], type: "user" });
  const sue = asking(() => here.url, "sue:sue");
  const source = { url: `${proxy.url}/films`, auth: { bearer: { token: "identity:couch" } } };
  const answer = await sue("POST", "/_replicate", { source, target: "own", create_target: true });
  expect(answer).toMatchObject({ status: 403, body: { error: "forbidden" } });
});

test("neither tokens nor secrets are shown or logged", async () => {
  const tokens = identityProvider.issued.map(({ token }) => token);
  const all = [SECRET, ...tokens, ...ASSERTIONS, ...FILE_TOKENS];
  expect(secretsIn(here.log(), all)).toEqual([]);
  const pages = [
    ...["/_scheduler/jobs", "/_scheduler/docs", "/_active_tasks", "/_tandem/jobs?limit=1000"],
    ...["/_node/_local/_config", "/_node/_local/_prometheus"],
  ];
  for (const page of pages) {
    const response = await fetch(here.url + page, {
      headers: { authorization: `Basic ${btoa("admin:admin")}` },
    });
    expect(secretsIn(await response.text(), all), page).toEqual([]);
  }
});

test("commands log in with the OAuth client credentials in a file, and continue when a token expires", async () => {
  const file = join(directory, "auth.json");
  const { auth } = oauth2({ client_secret: "env:CLIENT_SECRET" });
  writeFileSync(file, JSON.stringify(auth));
  // Only --connect-to resolves this name.
  const url = `http://couch.invalid:${new URL(proxy.url).port}`;
  const connect = ["--connect-to", `couch.invalid:${new URL(url).port}:${new URL(proxy.url).host}`];
  const target = here.url.replace("//", "//admin:admin@");
  const environment = { CLIENT_SECRET: SECRET };
  const run = (flags: readonly string[], more: Readonly<Record<string, string>> = environment) =>
    tandem([...flags, ...connect], { environment: more });
  const source = ["--source-auth-file", file];
  const sides = [`${url}/films`, `${target}/of-command`];

  const copied = await run(["replicate", ...sides, "--create-target", ...source]);
  expect(copied).toMatchObject({ code: 0, errors: expect.not.stringContaining("tandem:") });
  expect(await run(["verify", ...sides, ...source])).toMatchObject({ code: 0 });
  const chosen = ["--databases", "films", ...source];
  const all = ["--all", url, `${target}/all-{db}`, ...chosen];
  expect(await run(["replicate", ...all])).toMatchObject({ code: 0 });
  expect(await run(["verify", ...all])).toMatchObject({ code: 0 });
  expect(await run(["conflicts", `${url}/films`, "--auth-file", file])).toMatchObject({ code: 0 });

  const rejected = await run(["replicate", ...sides, ...source], { CLIENT_SECRET: "Kw7-guess" });
  expect(rejected.code).toBe(1);
  expect(rejected.errors).toContain(`the credentials of ${file} were sent to ${url}`);
  expect(rejected.errors).toContain("401 invalid_client");
  expect(secretsIn(rejected.errors, ["Kw7-guess"])).toEqual([]);
  const missing = await run(["replicate", ...sides, ...source], {});
  expect(missing).toMatchObject({ code: 1, errors: expect.stringContaining("CLIENT_SECRET") });

  const flags = ["replicate", ...sides, "--continuous", ...source, ...connect];
  const child = spawn(process.execPath, [MAIN, ...flags], {
    env: { ...process.env, ...environment },
    stdio: "ignore",
  });
  const first = identityProvider.issued.length;
  let { update_seq: since } = (await ask("GET", "/of-command")).body;
  while (identityProvider.issued.length < first + 3) {
    expect((await askThere("PUT", `/films/film-${++filmCount}`, {})).status).toBe(201);
    const { body } = await ask("GET", `/of-command/_changes?feed=longpoll&since=${since}`);
    since = body.last_seq;
  }
  child.kill("SIGTERM");
  expect(await once(child, "exit")).toEqual([1, null]);
});
