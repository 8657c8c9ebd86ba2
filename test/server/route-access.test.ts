/**
 * Access rights: every user requests every route of the server, after every kind of login. The
 * table is compared with the existing routes, so that a new route cannot be forgotten here.
 */
import { pbkdf2Sync } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SignJWT } from "jose";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import type { AskOptions, OpenApi } from "../api/api.fixture.ts";
import { openWholeApi, wholeRoutes } from "./whole-api.fixture.ts";

type Headers = Readonly<Record<string, string>>;

interface Person {
  readonly name: string;
  readonly roles: readonly string[];
}

/**
 * All named users. `films` has its own member and admin. A monitor has the role `_metrics`, and a
 * read-only operator the role `_tandem_reader`. The admin is last, because the admin's requests
 * succeed in removing objects.
 */
const PEOPLE = {
  stranger: { name: "sam", roles: [] },
  monitor: { name: "mo", roles: ["_metrics"] },
  reader: { name: "rita", roles: ["_tandem_reader"] },
  member: { name: "mia", roles: [] },
  chief: { name: "charlie", roles: [] },
  admin: { name: "root", roles: ["_admin"] },
} as const satisfies Record<string, Person>;

const PASSWORD = "secret";

const basic = ({ name }: Person): Headers => ({
  Authorization: `Basic ${Buffer.from(`${name}:${PASSWORD}`).toString("base64")}`,
});

/** Kinds of login. Each function returns the headers that authenticate the person. */
const WAYS: Readonly<Record<string, (person: Person, world: OpenApi) => Promise<Headers>>> = {
  basic: async (person) => basic(person),
  cookie: async ({ name }, { ask }) => {
    const { headers } = await ask("POST /_session", { body: { name, password: PASSWORD } });
    return { Cookie: (headers["Set-Cookie"] as string).replace(/;.*/, "") };
  },
  token: async ({ name, roles }) => {
    const claims = new SignJWT({ sub: name, "_couchdb.roles": roles }).setExpirationTime("1h");
    const token = await claims.setProtectedHeader({ alg: "HS256" }).sign(TOKEN_KEY);
    return { Authorization: `Bearer ${token}` };
  },
  proxy: async ({ name, roles }) => ({
    "X-Auth-CouchDB-UserName": name,
    "X-Auth-CouchDB-Roles": roles.join(","),
  }),
};

const TOKEN_KEY = Buffer.from("a key of at least 32 bytes, which signs tokens");
const INI = `
[chttpd]
authentication_handlers = ${["cookie", "jwt", "proxy", "default"]
  .map((name) => `{chttpd_auth, ${name}_authentication_handler}`)
  .join(", ")}

[jwt_keys]
hmac:_default = ${TOKEN_KEY.toString("base64")}
`;

const SECURITY = {
  members: { names: ["mia"], roles: [] },
  admins: { names: ["charlie"], roles: [] },
};

/** Outcome of a request. `in` stands for any response that is not a refusal. */
type Outcome = "in" | 401 | 403;
type Outcomes = Readonly<Record<"anonymous" | keyof typeof PEOPLE, Outcome>>;

const EVERYBODY: Outcomes = {
  anonymous: "in",
  stranger: "in",
  monitor: "in",
  reader: "in",
  member: "in",
  chief: "in",
  admin: "in",
};
const REPLICATING_USER: Outcomes = { ...EVERYBODY, anonymous: 401, reader: 403 };
const MEMBER: Outcomes = { ...EVERYBODY, anonymous: 401, stranger: 403, monitor: 403, reader: 403 };
const DATABASE_ADMIN: Outcomes = { ...MEMBER, member: 403 };
const SERVER_ADMIN: Outcomes = {
  anonymous: 401,
  stranger: 401,
  monitor: 401,
  reader: 401,
  member: 401,
  chief: 401,
  admin: "in",
};
const METRICS: Outcomes = { ...SERVER_ADMIN, monitor: "in", reader: "in" };
const OPERATIONS: Outcomes = { ...SERVER_ADMIN, reader: "in" };
const CHANGES_OF_OPERATIONS: Outcomes = { ...SERVER_ADMIN, reader: 403 };

/**
 * Routes by the rights that they require. `ANY` stands for all methods, in routes of resources that
 * Tandem does not have.
 */
const TABLE: readonly (readonly [Outcomes, readonly string[]])[] = [
  [
    EVERYBODY,
    [
      "GET /",
      "GET /_up",
      "GET /_uuids",
      "POST /_tandem/_batch",
      "GET /_session",
      "POST /_session",
      "DELETE /_session",
      "GET /_dashboard",
      "GET /_dashboard/{file...}",
      "GET /_utils",
      "GET /_utils/{file...}",
      "GET /favicon.ico",
    ],
  ],
  [REPLICATING_USER, ["POST /_replicate", "POST /_tandem/replications/_check"]],
  [
    METRICS,
    [
      "GET /_node/{node}/_stats",
      "GET /_node/{node}/_stats/{path...}",
      "GET /_node/{node}/_system",
      "GET /_node/{node}/_prometheus",
    ],
  ],
  [
    OPERATIONS,
    [
      "GET /_active_tasks",
      "GET /_membership",
      "GET /_node/{node}",
      "GET /_node/{node}/_active_tasks",
      "GET /_scheduler/docs",
      "GET /_scheduler/docs/{path...}",
      "GET /_scheduler/jobs",
      "GET /_scheduler/jobs/{id...}",
      "GET /_tandem/budgets",
      "GET /_tandem/alerts",
      "GET /_tandem/commands",
      "GET /_tandem/commands/{id}",
      "GET /_tandem/budgets/{name}",
      "GET /_tandem/endpoints",
      "GET /_tandem/events",
      "GET /_tandem/events/_past",
      "GET /_tandem/conflicts",
      "GET /_tandem/logins",
      "GET /_tandem/failing",
      "GET /_tandem/groups",
      "GET /_tandem/jobs",
      "GET /_tandem/jobs/{id}",
      "GET /_tandem/jobs/{id}/runs",
      "GET /_tandem/jobs/{id}/failures",
      "GET /_tandem/jobs/{id}/failures/_counts",
      "GET /_tandem/nodes",
      "GET /_tandem/rates",
      "GET /_tandem/rules",
      "GET /_tandem/rules/{name}",
      "GET /_tandem/secrets",
      "GET /_tandem/topology",
      "GET /_tandem/settings",
      "GET /_tandem/upgrade",
      "GET /_tandem/workers",
    ],
  ],
  [
    CHANGES_OF_OPERATIONS,
    [
      "POST /_node/{node}/_config/_reload",
      "PUT /_node/{node}/_config/{section}/{key}",
      "DELETE /_node/{node}/_config/{section}/{key}",
      "PUT /_tandem/budgets/{name}",
      "DELETE /_tandem/budgets/{name}",
      "PUT /_tandem/rules/{name}",
      "DELETE /_tandem/rules/{name}",
      "POST /_tandem/credentials/_replace",
      "POST /_tandem/jobs/_cancel",
      "POST /_tandem/alerts/_test",
      "DELETE /_tandem/commands/{id}",
      "POST /_tandem/commands/{id}/_undo",
      "POST /_tandem/jobs/_pause",
      "POST /_tandem/jobs/_reset",
      "POST /_tandem/jobs/_resume",
      "POST /_tandem/jobs/_retry",
      "POST /_tandem/jobs/_retry_failures",
      "POST /_tandem/jobs/{id}/_cancel",
      "POST /_tandem/jobs/{id}/_pause",
      "POST /_tandem/jobs/{id}/_reset",
      "POST /_tandem/jobs/{id}/_resume",
      "POST /_tandem/jobs/{id}/_retry",
      "POST /_tandem/jobs/{id}/_start_from",
      "POST /_tandem/jobs/{id}/failures/_retry",
      "POST /_tandem/nodes/{name}/_drain",
      "POST /_tandem/nodes/{name}/_undrain",
      "POST /_tandem/secrets/_rotate",
      "POST /_tandem/upgrade/_enable",
    ],
  ],
  [
    SERVER_ADMIN,
    [
      "ANY /_nouveau_analyze",
      "ANY /_nouveau_analyze/{rest...}",
      "ANY /_reshard",
      "ANY /_reshard/{rest...}",
      "ANY /_search_analyze",
      "ANY /_search_analyze/{rest...}",
      "GET /_cluster_setup",
      "POST /_cluster_setup",
      "GET /_all_dbs",
      "GET /_db_updates",
      "GET /_dbs_info",
      "POST /_dbs_info",
      "GET /_node/{node}/_config",
      "GET /_node/{node}/_config/{section}",
      "GET /_node/{node}/_config/{section}/{key}",
      "PUT /{database}",
      "DELETE /{database}",
      "POST /{database}/_purge",
      "GET /{database}/_purged_infos_limit",
      "PUT /{database}/_purged_infos_limit",
      "ANY /{database}/_sync_shards",
    ],
  ],
  [
    MEMBER,
    [
      "GET /_tandem/databases/{database}/conflicts",
      "GET /_tandem/databases/{database}/conflicts/policy",
      "GET /_tandem/databases/{database}/conflicts/resolutions",
      "GET /{database}",
      "POST /{database}",
      "GET /{database}/_all_docs",
      "POST /{database}/_all_docs",
      "POST /{database}/_all_docs/queries",
      "GET /{database}/_auto_purge",
      "POST /{database}/_bulk_docs",
      "POST /{database}/_bulk_get",
      "GET,POST /{database}/_changes",
      "GET /{database}/_design/{name}",
      "GET /{database}/_design/{name}/{attachment...}",
      "GET /{database}/_design_docs",
      "POST /{database}/_design_docs",
      "POST /{database}/_design_docs/queries",
      "POST /{database}/_ensure_full_commit",
      "POST /{database}/_explain",
      "POST /{database}/_find",
      "GET /{database}/_design/{name}/_info",
      "GET /{database}/_index",
      "POST /{database}/_index",
      "POST /{database}/_index/_bulk_delete",
      "DELETE /{database}/_index/{design}/{type}/{name}",
      "DELETE /{database}/_index/_design/{design}/{type}/{name}",
      "ANY /{database}/_index/{rest...}",
      "GET /{database}/_local/{name}",
      "PUT /{database}/_local/{name}",
      "DELETE /{database}/_local/{name}",
      "POST /{database}/_local/{name}/_continue",
      "GET /{database}/_local/{name}/{attachment...}",
      "PUT /{database}/_local/{name}/{attachment...}",
      "DELETE /{database}/_local/{name}/{attachment...}",
      "GET /{database}/_local_docs",
      "POST /{database}/_local_docs",
      "POST /{database}/_local_docs/queries",
      "POST /{database}/_missing_revs",
      "GET /{database}/_purged_infos",
      "POST /{database}/_revs_diff",
      "GET /{database}/_revs_limit",
      "GET /{database}/_security",
      "GET /{database}/_time_seq",
      "GET /{database}/{id}",
      "PUT /{database}/{id}",
      "POST /{database}/{id}",
      "DELETE /{database}/{id}",
      "COPY /{database}/{id}",
      "GET /{database}/{id}/{attachment...}",
      "PUT /{database}/{id}/{attachment...}",
      "DELETE /{database}/{id}/{attachment...}",
      "ANY /{database}/_partition/{rest...}",
      "ANY /{database}/_search_analyze",
      "ANY /{database}/_shards",
      "ANY /{database}/_shards/{rest...}",
      "ANY /{database}/_temp_view",
      ...[
        "_geo",
        "_info",
        "_list",
        "_nouveau",
        "_nouveau_info",
        "_rewrite",
        "_search",
        "_search_info",
        "_show",
        "_update",
        "_view",
      ].flatMap((name) => [
        `ANY /{database}/_design/{name}/${name}`,
        `ANY /{database}/_design/{name}/${name}/{rest...}`,
      ]),
    ],
  ],
  [
    DATABASE_ADMIN,
    [
      "PUT /_tandem/databases/{database}/conflicts/policy",
      "DELETE /_tandem/databases/{database}/conflicts/policy",
      "POST /_tandem/databases/{database}/conflicts/_undo",
      "PUT /{database}/_auto_purge",
      "POST /{database}/_compact",
      "POST /{database}/_compact/{design}",
      "POST /{database}/_view_cleanup",
      "PUT /{database}/_revs_limit",
      "PUT /{database}/_security",
      "DELETE /{database}/_time_seq",
      "PUT /{database}/_design/{name}",
      "POST /{database}/_design/{name}",
      "DELETE /{database}/_design/{name}",
      "COPY /{database}/_design/{name}",
      "PUT /{database}/_design/{name}/{attachment...}",
      "DELETE /{database}/_design/{name}/{attachment...}",
    ],
  ],
];

const REVISION = "1-a";
const FILE = { content_type: "text/plain", data: "YWJj" };
const FORM = ["--x", 'Content-Disposition: form-data; name="_rev"', "", REVISION, "--x--", ""].join(
  "\r\n",
);

/**
 * Bodies, headers and queries with which a request passes the checks that precede the authorization
 * of its route. Requests for routes that are not listed here have no body.
 */
const REQUESTS: Readonly<Record<string, AskOptions & { readonly query?: string }>> = {
  "POST /_session": { body: { name: "root", password: "secret" } },
  "GET /_tandem/events": { query: "timeout=1" },
  "HEAD /_tandem/events": { query: "timeout=1" },
  "PUT /{database}/_security": { body: SECURITY },
  "PUT /{database}/_revs_limit": { body: "10" },
  "PUT /{database}/_design/{name}": { body: {}, query: `rev=${REVISION}` },
  "POST /{database}/_design/{name}": {
    body: FORM,
    headers: {
      "Content-Type": "multipart/form-data; boundary=x",
      Referer: "http://127.0.0.1:5984/",
    },
  },
  "DELETE /{database}/_design/{name}": { query: `rev=${REVISION}` },
  "COPY /{database}/_design/{name}": { headers: { Destination: "_design/copy" } },
  "PUT /{database}/_design/{name}/{attachment...}": { body: "x", query: `rev=${REVISION}` },
  "DELETE /{database}/_design/{name}/{attachment...}": { query: `rev=${REVISION}` },
};

/** Values for the placeholders of a path. Each value names an existing object. */
const PLACES: Readonly<Record<string, string>> = {
  "{database}": "films",
  "{name}": "one",
  "{attachment...}": "file",
  "{node}": "_local",
  "{section}": "replicator",
  "{key}": "max_jobs",
  "{file...}": "index.html",
  "{path...}": "_replicator",
  "{rest...}": "x",
  "{design}": "one",
};

function placed(path: string): string {
  // Outside a database's routes, the placeholder stands for a job that has a document.
  const id = path.startsWith("/{database}") ? "one" : "_replicator%2Fjob";
  return path.replace(/\{[^}]*\}/g, (place) => PLACES[place] ?? id);
}

const directory = mkdtempSync(join(tmpdir(), "tandem-test-"));
const configFile = join(directory, "tandem.ini");
writeFileSync(configFile, INI);
afterAll(() => rmSync(directory, { recursive: true }));

let world: OpenApi;

beforeEach(async () => {
  world = await openWorld();
});

/** Opens the API of a server with a database, a job, and all users. */
async function openWorld(): Promise<OpenApi> {
  const opened = await openWholeApi({ configFile });
  const set = async (request: string, body?: unknown): Promise<void> => {
    const headers = basic(PEOPLE.admin);
    const { status, text } = await opened.ask(request, { headers, ...(body ? { body } : {}) });
    expect([200, 201], text).toContain(status);
  };
  for (const name of ["_users", "_replicator", "films"]) await set(`PUT /${name}`);
  const users = Object.values(PEOPLE).filter((person) => person !== PEOPLE.admin);
  await set("POST /_users/_bulk_docs", { docs: users.map(userDocument) });
  await set("PUT /films/_security", SECURITY);
  const docs = ["one", "_design/one"].map((id) => ({
    _id: id,
    _rev: REVISION,
    _attachments: { file: FILE },
  }));
  await set("POST /films/_bulk_docs", { new_edits: false, docs });
  await set("PUT /_replicator/job", { source: "films", target: "copy", create_target: true });
  return opened;
}

function userDocument({ name, roles }: Person): object {
  const hash = pbkdf2Sync(PASSWORD, "salt", 10, 32, "sha256").toString("hex");
  return {
    _id: `org.couchdb.user:${name}`,
    type: "user",
    name,
    roles,
    password_scheme: "pbkdf2",
    pbkdf2_prf: "sha256",
    iterations: 10,
    salt: "salt",
    derived_key: hash,
  };
}

const ANY = "GET,PUT,POST,PATCH,DELETE,COPY,OPTIONS,TRACE,CONNECT";

/** Returns lines like `GET /films`, one for each route, whichever list defines the route. */
function existingRoutes(): string[] {
  const lines = wholeRoutes(world).map(({ methods, path }) => {
    const named = methods.filter((method) => method !== "HEAD").join(",");
    return `${named === ANY ? "ANY" : named} ${path}`;
  });
  return [...new Set(lines)];
}

test("the table contains every route exactly once", () => {
  const listed = TABLE.flatMap(([, lines]) => lines);
  expect(listed.toSorted()).toEqual(existingRoutes().toSorted());
});

describe.each(TABLE.flatMap(([outcomes, lines]) => lines.map((line) => [line, outcomes] as const)))(
  "%s",
  (line, outcomes) => {
    const [methods = "", path = ""] = line.split(" ");
    const named = methods === "ANY" ? ANY : methods;
    const all = [...named.split(","), ...(/GET/.test(named) ? ["HEAD"] : [])];

    test.each(all)("%s is allowed only for the users in the table", async (method) => {
      const { query, ...options } = REQUESTS[`${method} ${path}`] ?? {};
      const request = `${method} ${placed(path)}${query === undefined ? "" : `?${query}`}`;
      const ask = async (login: Headers): Promise<Outcome> => {
        const headers = { ...options.headers, ...login };
        const { status } = await world.ask(request, { ...options, headers });
        return status === 401 || status === 403 ? status : "in";
      };
      const found: Record<string, unknown> = { anonymous: await ask({}) };
      const expected: Record<string, unknown> = { anonymous: outcomes.anonymous };
      for (const [who, person] of Object.entries(PEOPLE)) {
        const asked = Object.entries(WAYS).map(async ([way, logIn]) => {
          expected[`${who} by ${way}`] = outcomes[who as keyof Outcomes];
          found[`${who} by ${way}`] = await ask(await logIn(person, world));
        });
        await Promise.all(asked);
      }
      expect(found).toEqual(expected);
      expect(world.events.filter(({ name }) => name === "api.request-failed")).toEqual([]);
    });
  },
);

/** Deferred work takes effect later, without a request. */
describe("deferred work has the rights of the user who requested it", () => {
  type Allowed = Readonly<Record<"anonymous" | keyof typeof PEOPLE, boolean>>;
  const ANONYMOUS: Allowed = {
    anonymous: false,
    stranger: false,
    monitor: false,
    reader: false,
    member: false,
    chief: false,
    admin: false,
  };
  const ADMIN_ALONE: Allowed = { ...ANONYMOUS, admin: true };
  const ADMIN = basic(PEOPLE.admin);
  const SECRET = { url: "http://far.example/a", headers: { "x-key": "env:CREDENTIAL_A" } };
  const GUESS = "http://jan:guess@far.example/a";

  const asAdmin = async (request: string, body?: unknown) =>
    (await world.ask(request, { headers: ADMIN, ...(body === undefined ? {} : { body }) })).json;

  /** Returns whether the document has a job that may use its endpoints. */
  async function mayRun(id: string): Promise<boolean> {
    const answer = await world.ask(`GET /_scheduler/docs/_replicator/${id}`, { headers: ADMIN });
    return answer.status === 200 && !JSON.stringify(answer.json).includes("server admin");
  }

  /**
   * Deferred effects by name. Each value contains the users who are allowed to cause the effect,
   * and a function that tests whether a given user can cause it.
   */
  const EFFECTS: Readonly<
    Record<string, readonly [Allowed, (login: Headers, name: string | null) => Promise<boolean>]>
  > = {
    "a job that uses a secret of the server": [
      ADMIN_ALONE,
      async (headers) => {
        const body = { source: SECRET, target: "copy" };
        await world.ask("PUT /_replicator/started", { headers, body });
        return mayRun("started");
      },
    ],
    "a leaf that refers to a secret of the server and becomes the winner": [
      ANONYMOUS,
      async (headers, owner) => {
        const leaf = (letter: string, source: unknown) => {
          const ids = [letter.repeat(32), "0".repeat(32)];
          const _revisions = { start: 2, ids };
          return { _id: "leaf", _rev: `2-${ids[0]}`, _revisions, owner, source, target: "copy" };
        };
        const docs = [leaf("a", SECRET), leaf("f", "films")];
        const body = { new_edits: false, docs };
        await world.ask("POST /_replicator/_bulk_docs", { headers, body });
        await asAdmin(`DELETE /_replicator/leaf?rev=2-${"f".repeat(32)}`);
        return mayRun("leaf");
      },
    ],
    "a stored rule": [
      ADMIN_ALONE,
      async (headers) => {
        const body = { source: "local", target: "https://b.example/{db}" };
        await world.ask("PUT /_tandem/rules/later", { headers, body });
        const { status } = await world.ask("GET /_tandem/rules/later", { headers: ADMIN });
        return status === 200;
      },
    ],
    "a replaced credential in a job": [
      ADMIN_ALONE,
      async (headers) => {
        const body = { source: GUESS, target: "copy" };
        await world.ask("PUT /_replicator/replaced", { headers, body });
        const auth = { basic: { username: "jan", password: "the-new-one" } };
        await asAdmin("POST /_tandem/credentials/_replace", {
          host: "http://far.example",
          username: "jan",
          auth,
        });
        return JSON.stringify(await asAdmin("GET /_replicator/replaced")).includes("the-new-one");
      },
    ],
    "a changed receiver of alerts": [
      ADMIN_ALONE,
      async (headers) => {
        const path = "/_node/_local/_config/alerts/url";
        await world.ask(`PUT ${path}`, { headers, body: '"https://evil.example/"' });
        const { status } = await world.ask(`GET ${path}`, { headers: ADMIN });
        return status === 200;
      },
    ],
  };

  const rows = Object.keys(EFFECTS).flatMap((effect) =>
    Object.keys(WAYS).map((way) => [effect, way] as const),
  );

  test.each(rows)("%s: only permitted users can cause it (login by %s)", async (effect, way) => {
    const [allowed, take] = EFFECTS[effect] as (typeof EFFECTS)[string];
    const found: Record<string, boolean> = {};
    for (const who of Object.keys(allowed) as (keyof Allowed)[]) {
      world = await openWorld();
      await asAdmin("PUT /_replicator/_security", {});
      const person = who === "anonymous" ? undefined : PEOPLE[who];
      const login = person === undefined ? {} : await WAYS[way]?.(person, world);
      found[who] = await take(login ?? {}, person?.name ?? null);
    }
    expect(found).toEqual(allowed);
  });
});
