/**
 * Requests that each role may send. Statuses and reasons were compared with CouchDB 3.5.0. A
 * comment precedes each row in which CouchDB's response differs.
 */
import { describe, expect, test } from "vitest";
import type { User } from "../../src/api/index.ts";
import { ADMIN, type OpenApi, openApi, SETTINGS } from "./api.fixture.ts";
import { type Row, refusal } from "./rows.ts";

const ANONYMOUS: User = { name: null, roles: [], isAdmin: false };
const ALICE: User = { name: "alice", roles: ["reader"], isAdmin: false };
const BOB: User = { name: "bob", roles: ["chief"], isAdmin: false };

const SECURITY = {
  members: { names: ["alice"], roles: [] },
  admins: { names: [], roles: ["chief"] },
};

/**
 * Opens the API for requests by `user`. In `films`, alice is a member, and bob's role is an admin
 * role. `secrets` has no security object, and `open` has an empty one.
 */
async function openAs(user: User): Promise<OpenApi> {
  let current = ADMIN;
  const opened = await openApi({ parts: { authenticate: async () => current } });
  for (const name of ["films", "secrets", "open", "_users", "_replicator"]) {
    await opened.ask(`PUT /${name}`);
  }
  await opened.ask("PUT /films/_security", { body: SECURITY });
  await opened.ask("PUT /open/_security", { body: {} });
  current = user;
  return opened;
}

const SERVER = refusal(401, "unauthorized", "You are not a server admin.");
const UNKNOWN = refusal(401, "unauthorized", "You are not authorized to access this db.");
const KNOWN = refusal(403, "forbidden", "You are not allowed to access this db.");
const NO_ADMIN = refusal(403, "forbidden", "You are not a db or server admin.");

function rowsFor(user: User, rows: readonly Omit<Row, "name">[]): void {
  test.each(rows.map((row) => [row.ask, row] as const))("%s", async (_, row) => {
    const { ask } = await openAs(user);
    const answer = await ask(row.ask, row);
    if (row.json !== undefined) expect(answer.json).toEqual(row.json);
    expect(answer.status).toBe(row.status);
  });
}

describe("an anonymous user", () => {
  rowsFor(ANONYMOUS, [
    { ask: "GET /", status: 200 },
    { ask: "GET /_up", status: 200 },
    { ask: "GET /_uuids", status: 200 },
    { ask: "GET /_all_dbs", ...SERVER },
    { ask: "POST /_dbs_info", body: { keys: [] }, ...SERVER },
    { ask: "GET /_membership", ...SERVER },
    { ask: "GET /_active_tasks", ...SERVER },
    { ask: "GET /_scheduler/jobs", ...SERVER },
    { ask: "GET /_node/_local/_config", ...SERVER },
    { ask: "GET /_tandem/workers", ...SERVER },
    { ask: "GET /_xyz", ...SERVER },
    { ask: "PUT /new", ...SERVER },
    { ask: "DELETE /films", ...SERVER },
    { ask: "GET /films", ...UNKNOWN },
    { ask: "PATCH /films", ...UNKNOWN },
    { ask: "GET /films/x", ...UNKNOWN },
    { ask: "PUT /films/x", body: {}, ...UNKNOWN },
    { ask: "GET /secrets", ...UNKNOWN },
    { ask: "GET /nope", ...refusal(404, "not_found", "Database does not exist.") },
    { ask: "GET /open", status: 200 },
    { ask: "PUT /open/x", body: {}, status: 201 },
    {
      ask: "PUT /open/_design/x",
      body: {},
      ...refusal(401, "unauthorized", "You are not a db or server admin."),
    },
    { ask: "GET /_users", ...UNKNOWN },
    { ask: "PUT /_users/org.couchdb.user:x", body: {}, ...UNKNOWN },
  ]);
});

describe("a member", () => {
  rowsFor(ALICE, [
    { ask: "GET /_all_dbs", ...SERVER },
    { ask: "GET /_scheduler/jobs", ...SERVER },
    { ask: "PUT /new", ...SERVER },
    { ask: "DELETE /films", ...SERVER },
    { ask: "GET /films", status: 200 },
    { ask: "GET /films/_all_docs", status: 200 },
    { ask: "GET /films/_changes", status: 200 },
    { ask: "GET /films/_security", status: 200, json: SECURITY },
    { ask: "PUT /films/x", body: {}, status: 201 },
    { ask: "PUT /films/_local/x", body: {}, status: 201 },
    { ask: "PUT /films/_design/x", body: {}, ...NO_ADMIN },
    // CouchDB responds with 500, no_majority.
    { ask: "PUT /films/_security", body: {}, ...NO_ADMIN },
    // CouchDB responds with 500, badmatch.
    { ask: "PUT /films/_revs_limit", body: 5, ...NO_ADMIN },
    // CouchDB responds with 401, "You are not a server or db admin."
    { ask: "POST /films/_compact", body: {}, ...NO_ADMIN },
    { ask: "GET /secrets", ...KNOWN },
    { ask: "GET /secrets/x", ...KNOWN },
    { ask: "PUT /secrets/_security", body: {}, ...KNOWN },
    { ask: "GET /_users", ...KNOWN },
    { ask: "GET /_users/org.couchdb.user:alice", ...KNOWN },
    { ask: "GET /_users/_all_docs", ...SERVER },
    { ask: "GET /_users/_changes", ...SERVER },
    { ask: "GET /_replicator", ...KNOWN },
    { ask: "GET /_replicator/_all_docs", ...SERVER },
  ]);
});

describe("the permissions of a database admin", () => {
  rowsFor(BOB, [
    { ask: "GET /films", status: 200 },
    { ask: "PUT /films/_design/x", body: {}, status: 201 },
    { ask: "PUT /films/_security", body: SECURITY, status: 200 },
    { ask: "PUT /films/_revs_limit", body: 5, status: 200 },
    { ask: "POST /films/_compact", body: {}, status: 202 },
    { ask: "DELETE /films", ...SERVER },
    { ask: "GET /secrets", ...KNOWN },
  ]);
});

test("everyone may list databases if the configuration allows it", async () => {
  const settings = { ...SETTINGS, adminOnlyAllDatabases: false };
  const { ask } = await openApi({ user: ANONYMOUS, parts: { settings } });
  expect((await ask("GET /_all_dbs")).status).toBe(200);
});

test("even a server admin cannot change the security object of the users database", async () => {
  const { ask } = await openAs(ADMIN);
  expect(await ask("PUT /_users/_security", { body: {} })).toMatchObject(
    refusal(403, "forbidden", "You can't edit the security object of the user database."),
  );
});
