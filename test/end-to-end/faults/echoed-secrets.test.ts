/**
 * A server echoes everything it receives. No secret may be stored, logged or shown in a response.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { secretsBelow, secretsIn } from "../../support/find-secrets.ts";
import { Processes, type TandemProcess } from "../../support/open-process.ts";

const processes = new Processes();
const directory = processes.directory();
const ADMIN = `Basic ${btoa("admin:admin-of-this-node")}`;
const INI = "[admins]\nadmin = admin-of-this-node\n[replicator]\nmin_backoff_penalty_sec = 1\n";

const SECRETS = {
  userinfo: "Zx9-url-password",
  basic: "Zx9-basic-password",
  header: "Zx9-own-header-value",
  bearer: "Zx9-bearer-token-text",
  session: "Zx9-session-cookie-value",
} as const;
const ALL = Object.values(SECRETS);
/** Password of one job. The server of another job guesses it. */
const GUESSED = "Kq7-guessed-password";

/** Returns the server's echo of a request, in several encodings. */
function echoOf({ headers, url }: IncomingMessage, body: string): string {
  const sent = JSON.stringify({ headers, url, body });
  const basic = Buffer.from(headers.authorization?.split(" ")[1] ?? "", "base64").toString();
  return `${basic} ${encodeURIComponent(basic)} ${Buffer.from(basic).toString("base64")} ${sent}`;
}

/** Ways in which the server echoes a request, by the first segment of the request's path. */
const ECHOES: Readonly<Record<string, (echo: string, response: ServerResponse) => void>> = {
  reason: (reason, response) =>
    response.writeHead(400).end(JSON.stringify({ error: "bad_request", reason })),
  error: (error, response) => response.writeHead(403).end(JSON.stringify({ error, reason: "" })),
  html: (echo, response) => response.writeHead(404).end(`<html>${echo}</html>`),
  plain: (echo, response) => response.writeHead(200).end(echo),
  moved: (echo, response) =>
    response
      .writeHead(301, { location: `http://127.0.0.1:1/?${encodeURIComponent(echo).slice(0, 900)}` })
      .end(),
};
/** Kinds of valid responses in which a sequence contains the credential. */
const SEQUENCES = new Set(["plainly", "encoded", "listed", "facts"]);
const FACTS = { db_name: "x", update_seq: 1, doc_count: 1, doc_del_count: 0 };

const server = createServer(async (request, response) => {
  let body = "";
  for await (const piece of request) body += piece;
  const path = request.url ?? "";
  if (path.startsWith("/_session")) {
    response.writeHead(200, { "set-cookie": `AuthSession=${SECRETS.session}` }).end("{}");
    return;
  }
  const [, kind = "", , resource = ""] = path.split(/[/?]/);
  const echo = echoOf(request, body);
  if (kind === "guess") {
    if (resource === "") response.end(JSON.stringify(FACTS));
    else if (resource === "_local") response.writeHead(404).end('{"error":"not_found"}');
    else response.writeHead(400).end(JSON.stringify({ error: "bad_request", reason: GUESSED }));
    return;
  }
  if (SEQUENCES.has(kind)) {
    const secret = ALL.find((each) => echo.includes(each)) ?? "none";
    const repeated = kind === "encoded" ? Buffer.from(`12-${secret}`).toString("base64") : secret;
    const sequence = kind === "listed" ? [12, { at: repeated }] : repeated;
    const end = kind === "facts" ? "1-a" : sequence;
    const facts = { ...FACTS, update_seq: kind === "facts" ? sequence : 1 };
    if (resource === "") response.end(JSON.stringify(facts));
    else if (resource === "_local") {
      const id = path.slice(path.indexOf("_local/"));
      if (request.method !== "PUT") response.writeHead(404).end('{"error":"not_found"}');
      else response.writeHead(201).end(JSON.stringify({ ok: true, id, rev: "0-1" }));
    } else if (resource === "_ensure_full_commit") response.writeHead(201).end('{"ok":true}');
    else if (resource === "_changes") {
      const row = { seq: end, id: "a", changes: [{ rev: "1-a" }] };
      response.end(JSON.stringify({ results: [row], last_seq: end, pending: 0 }));
    } else {
      const ok = { _id: "a", _rev: "1-a", _revisions: { start: 1, ids: ["a"] } };
      response.end(JSON.stringify({ results: [{ id: "a", docs: [{ ok }] }] }));
    }
    return;
  }
  if (kind === "changes" || kind === "documents") {
    if (resource === "") response.end(JSON.stringify(FACTS));
    else if (resource === "_local") response.writeHead(404).end('{"error":"not_found"}');
    else if (resource === "_changes") {
      const row =
        kind === "changes" ? { seq: 1, echo } : { seq: 1, id: "a", changes: [{ rev: "1-a" }] };
      response.end(JSON.stringify({ results: [row], last_seq: 1 }));
    } else {
      const ok = { _id: "a", _rev: "1-a", [`_${echo}`]: 1 };
      const results = [{ id: "a", docs: [{ ok }] }];
      response.end(JSON.stringify({ results }));
    }
    return;
  }
  (ECHOES[kind] ?? ECHOES.reason)?.(echo, response);
});

let node: TandemProcess;
let origin: string;

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  origin = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  node = await processes.open({ directory, ini: INI });
});
afterAll(async () => {
  server.closeAllConnections();
  server.close();
  await processes.close();
});

async function ask(method: string, path: string, body?: unknown) {
  const response = await fetch(node.url + path, {
    method,
    headers: { "content-type": "application/json", authorization: ADMIN },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: response.status, text: await response.text() };
}

const KINDS = [...Object.keys(ECHOES), "changes", "documents", ...SEQUENCES];

/**
 * Returns one endpoint for each form of credentials, by name of the form. `kind` selects how the
 * server echoes requests.
 */
function endpoints(kind: string): Record<string, unknown> {
  const url = `http://${origin}/${kind}/db`;
  return {
    userinfo: url.replace("://", `://jan:${SECRETS.userinfo}@`),
    basic: { url, auth: { basic: { username: "jan", password: SECRETS.basic } } },
    header: { url, headers: { "X-Own": SECRETS.header } },
    bearer: { url, headers: { Authorization: `Bearer ${SECRETS.bearer}` } },
  };
}

test("secrets echoed by a server are not in any store, log or response", async () => {
  await ask("PUT", "/films");
  await ask("PUT", "/films/a", { title: "A" });
  let count = 0;
  for (const kind of KINDS) {
    for (const [form, endpoint] of Object.entries(endpoints(kind))) {
      const sides = [
        { source: endpoint, target: `copy-${kind}-${form}`, create_target: true },
        { source: "films", target: endpoint },
      ];
      for (const [side, body] of sides.entries()) {
        const { status } = await ask("PUT", `/_replicator/${kind}-${form}-${side}`, {
          ...body,
          retries_per_request: 0,
        });
        expect(status).toBe(201);
        count++;
      }
    }
  }
  const jobs = () => ask("GET", "/_tandem/jobs?limit=1000");
  await node.onceAnswered(jobs, ({ text }) => {
    const { jobs } = JSON.parse(text) as {
      jobs: { error_count: number; left_behind: number; state: string }[];
    };
    const ended = jobs.filter(
      ({ error_count, state }) => error_count > 0 || ["completed", "failed"].includes(state),
    );
    return jobs.length >= count && ended.length === jobs.length;
  });
  const lists = JSON.parse((await jobs()).text).jobs as { id: string }[];
  const views = [
    "/_scheduler/jobs?limit=1000",
    "/_scheduler/docs?limit=1000",
    "/_tandem/jobs?limit=1000",
    "/_tandem/jobs/_failing",
    ...lists.map(({ id }) => `/_tandem/jobs/${encodeURIComponent(id)}/failures`),
    ...lists.map(({ id }) => `/_tandem/jobs/${encodeURIComponent(id)}`),
  ];
  for (const path of views) {
    const { text } = await ask("GET", path);
    expect([path, secretsIn(text, ALL)]).toEqual([path, []]);
  }
  // Masking the credentials of one job must reveal nothing about the credentials of another job.
  const asked = { target: "films", retries_per_request: 0 };
  const auth = { basic: { username: "ann", password: GUESSED } };
  const owner = { url: `http://${origin}/reason/db`, auth };
  const ofOwner = await ask("POST", "/_replicate", { ...asked, source: owner });
  expect(secretsIn(ofOwner.text, [GUESSED])).toEqual([]);
  const source = `http://${origin}/guess/db`;
  expect((await ask("POST", "/_replicate", { ...asked, source })).text).toContain(GUESSED);
  const checked = await ask("POST", "/_tandem/replications/_check", {
    source: endpoints("reason").basic,
    target: endpoints("error").userinfo,
  });
  expect(secretsIn(checked.text, ALL)).toEqual([]);
  const answered = await ask("POST", "/_replicate", {
    source: endpoints("html").basic,
    target: "films",
  });
  expect(answered.status).toBeGreaterThanOrEqual(400);
  expect(secretsIn(answered.text, ALL)).toEqual([]);
  expect(secretsIn(node.log(), ALL)).toEqual([]);
  await node.stop();
  expect(secretsBelow(directory, ALL)).toEqual([]);
});
