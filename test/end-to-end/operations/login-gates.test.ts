/**
 * Many jobs with a mistyped password, and one job with the correct password, use the same
 * account. The server never locks the account. The server is a Tandem, which locks accounts like
 * CouchDB 3.5, or the CouchDB in `COUCHDB_URL` if set.
 */
import { randomBytes } from "node:crypto";
import { afterAll, expect, test } from "vitest";
import { COUCHDB_URL } from "../../api/couchdb.fixture.ts";
import { Processes } from "../../support/open-process.ts";

const JOBS = 20;
const RIGHT = "right-password";
const ADMIN = "admin:admin-password";

const processes = new Processes();
afterAll(() => processes.close());

async function ask(url: string, user: string, method: string, body?: unknown) {
  const response = await fetch(url, {
    method,
    headers: { "content-type": "application/json", authorization: `Basic ${btoa(user)}` },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, json: JSON.parse(text) };
}

/** Returns the URL of a server, without a path, and its administrator's credentials. */
async function openTandem() {
  const ini = `[admins]\nadmin = admin-password\n`;
  const { url } = await processes.open({ ini });
  return { url, admin: ADMIN };
}

async function openCouchdb() {
  const { origin, username, password } = new URL(COUCHDB_URL as string);
  return { url: origin, admin: `${username}:${decodeURIComponent(password)}` };
}

const SERVERS = [
  ["a Tandem", openTandem] as const,
  ...(COUCHDB_URL === undefined ? [] : [["a CouchDB", openCouchdb] as const]),
];

test.each(SERVERS)("%s does not lock an account", async (_, open) => {
  const { url, admin } = await open();
  const user = `gate-${randomBytes(6).toString("hex")}`;
  const database = `${user}-films`;
  await ask(`${url}/_users`, admin, "PUT");
  const document = { name: user, password: RIGHT, roles: [], type: "user" };
  await ask(`${url}/_users/org.couchdb.user:${user}`, admin, "PUT", document);
  await ask(`${url}/${database}`, admin, "PUT");
  const security = { admins: { names: [], roles: [] }, members: { names: [user], roles: [] } };
  await ask(`${url}/${database}/_security`, admin, "PUT", security);
  await ask(`${url}/${database}/a`, admin, "PUT", { title: "A" });

  const node = await processes.open({
    ini: `[admins]\nadmin = admin-password\n[replicator]\nmin_backoff_penalty_sec = 1\n`,
    flags: ["--replication-processes", "1"],
  });
  const source = (password: string) => ({
    url: `${url}/${database}`,
    auth: { basic: { username: user, password } },
  });
  const here = (path: string, method = "GET", body?: unknown) =>
    ask(`${node.url}${path}`, ADMIN, method, body);
  for (let number = 0; number < JOBS; number++) {
    const job = { source: source("mistyped"), target: `copy-${number}`, create_target: true };
    expect((await here(`/_replicator/wrong-${number}`, "PUT", job)).status).toBe(201);
  }
  const list = () => here("/_tandem/jobs?limit=1000");
  await node.onceAnswered(list, ({ json }) => {
    const failed = json.jobs.filter((job: { error_count: number }) => job.error_count > 0);
    return failed.length === JOBS;
  });
  // A request and a job with the correct password succeed.
  expect((await ask(`${url}/${database}`, `${user}:${RIGHT}`, "GET")).status).toBe(200);
  const right = { source: source(RIGHT), target: "right", create_target: true };
  await here("/_replicator/right", "PUT", right);
  const state = () => here("/_scheduler/docs/_replicator/right");
  await node.onceAnswered(state, ({ json }) => json.state === "completed");
  expect((await ask(`${url}/${database}`, `${user}:${RIGHT}`, "GET")).status).toBe(200);
  // The first run of the job might have shared a login that the server refused. Later runs do not
  // log in, because the account's login gate is closed.
  const wrong = () => here("/_scheduler/docs/_replicator/wrong-7");
  const isHeld = ({ json }: { json: unknown }) =>
    JSON.stringify(json).includes("so that the account is not locked");
  await node.onceAnswered(wrong, isHeld);
});
