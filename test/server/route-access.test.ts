/**
 * Who is let in where: every route of the server, asked by everybody. The table is compared with the routes that there are, so a
 * new one cannot be forgotten here.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { apiRoutes } from "../../src/api/api.ts";
import type { User } from "../../src/api/index.ts";
import { ADMIN, type AskOptions, type OpenApi } from "../api/api.fixture.ts";
import { openWholeApi } from "./whole-api.fixture.ts";

/** Everybody there is. `films` has a member and an admin of its own; a monitor has the role `_metrics`. */
const USERS = {
  nobody: { name: null, roles: [], isAdmin: false },
  stranger: { name: "sam", roles: [], isAdmin: false },
  monitor: { name: "mo", roles: ["_metrics"], isAdmin: false },
  member: { name: "mia", roles: [], isAdmin: false },
  chief: { name: "charlie", roles: [], isAdmin: false },
  admin: ADMIN,
} as const satisfies Record<string, User>;

const SECURITY = {
  members: { names: ["mia"], roles: [] },
  admins: { names: ["charlie"], roles: [] },
};

/** `in`: whatever the answer is, it is no refusal. */
type Outcome = "in" | 401 | 403;
type Outcomes = Readonly<Record<keyof typeof USERS, Outcome>>;

const EVERYBODY: Outcomes = {
  nobody: "in",
  stranger: "in",
  monitor: "in",
  member: "in",
  chief: "in",
  admin: "in",
};
const USER: Outcomes = { ...EVERYBODY, nobody: 401 };
const MEMBER: Outcomes = { ...USER, stranger: 403, monitor: 403 };
const DATABASE_ADMIN: Outcomes = { ...MEMBER, member: 403 };
const SERVER_ADMIN: Outcomes = {
  nobody: 401,
  stranger: 401,
  monitor: 401,
  member: 401,
  chief: 401,
  admin: "in",
};
const METRICS: Outcomes = { ...SERVER_ADMIN, monitor: "in" };

/** Routes by what they ask of a user; `ANY` stands for all methods of a resource that is not part of Tandem. */
const TABLE: readonly (readonly [Outcomes, readonly string[]])[] = [
  [
    EVERYBODY,
    [
      "GET /",
      "GET /_up",
      "GET /_uuids",
      "GET /_session",
      "POST /_session",
      "DELETE /_session",
      "GET /_utils",
      "GET /_utils/{file...}",
      "GET /favicon.ico",
    ],
  ],
  [USER, ["POST /_replicate"]],
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
    SERVER_ADMIN,
    [
      "GET /_active_tasks",
      "GET /_all_dbs",
      "GET /_db_updates",
      "GET /_dbs_info",
      "POST /_dbs_info",
      "GET /_membership",
      "GET /_node/{node}",
      "GET /_node/{node}/_config",
      "POST /_node/{node}/_config/_reload",
      "GET /_node/{node}/_config/{section}",
      "GET /_node/{node}/_config/{section}/{key}",
      "PUT /_node/{node}/_config/{section}/{key}",
      "DELETE /_node/{node}/_config/{section}/{key}",
      "GET /_scheduler/docs",
      "GET /_scheduler/docs/{path...}",
      "GET /_scheduler/jobs",
      "GET /_scheduler/jobs/{id...}",
      "GET /_tandem/budgets",
      "GET /_tandem/budgets/{name}",
      "PUT /_tandem/budgets/{name}",
      "DELETE /_tandem/budgets/{name}",
      "GET /_tandem/jobs",
      "POST /_tandem/jobs/_cancel",
      "POST /_tandem/jobs/_pause",
      "POST /_tandem/jobs/_reset",
      "POST /_tandem/jobs/_resume",
      "POST /_tandem/jobs/_retry",
      "GET /_tandem/jobs/{id}",
      "POST /_tandem/jobs/{id}/_cancel",
      "POST /_tandem/jobs/{id}/_pause",
      "POST /_tandem/jobs/{id}/_reset",
      "POST /_tandem/jobs/{id}/_resume",
      "POST /_tandem/jobs/{id}/_retry",
      "POST /_tandem/jobs/{id}/_start_from",
      "GET /_tandem/jobs/{id}/failures",
      "GET /_tandem/jobs/{id}/failures/_counts",
      "POST /_tandem/jobs/{id}/failures/_retry",
      "GET /_tandem/workers",
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
      "GET /{database}/_index",
      "POST /{database}/_index",
      "POST /{database}/_index/_bulk_delete",
      "DELETE /{database}/_index/{rest...}",
      "GET /{database}/_local/{name...}",
      "PUT /{database}/_local/{name...}",
      "DELETE /{database}/_local/{name...}",
      "GET /{database}/_local_docs",
      "POST /{database}/_local_docs",
      "POST /{database}/_local_docs/queries",
      "POST /{database}/_missing_revs",
      "GET /{database}/_purged_infos",
      "POST /{database}/_revs_diff",
      "GET /{database}/_revs_limit",
      "GET /{database}/_security",
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
      "PUT /{database}/_auto_purge",
      "POST /{database}/_compact",
      "POST /{database}/_compact/{design}",
      "POST /{database}/_view_cleanup",
      "PUT /{database}/_revs_limit",
      "PUT /{database}/_security",
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

/** What a request needs to come as far as the rights of who sends it; all others are sent without anything. */
const REQUESTS: Readonly<Record<string, AskOptions & { readonly query?: string }>> = {
  "POST /_session": { body: { name: "root", password: "secret" } },
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

/** What stands for the placeholders of a path. Each names something that is there. */
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
  // Jobs are named by their document.
  const id = path.startsWith("/{database}") ? "one" : "_replicator%2Fjob";
  return path.replace(/\{[^}]*\}/g, (place) => PLACES[place] ?? id);
}

let world: OpenApi;
let current: User;

beforeEach(async () => {
  world = await openWorld();
});

/** The API of a server, with a database, a job, and somebody who asks. */
async function openWorld(): Promise<OpenApi> {
  current = ADMIN;
  const opened = await openWholeApi(async () => current);
  await opened.ask("PUT /_replicator");
  await opened.ask("PUT /films");
  await opened.ask("PUT /films/_security", { body: SECURITY });
  const docs = ["one", "_design/one"].map((id) => ({
    _id: id,
    _rev: REVISION,
    _attachments: { file: FILE },
  }));
  await opened.ask("POST /films/_bulk_docs", { body: { new_edits: false, docs } });
  const job = { source: "films", target: "copy", create_target: true };
  expect((await opened.ask("PUT /_replicator/job", { body: job })).status).toBe(201);
  return opened;
}

const ANY = "GET,PUT,POST,DELETE,COPY";

/** `GET /films`: one line for each route, whatever defines it. */
function routesThereAre(): string[] {
  const lines = apiRoutes(world.parts).map(({ methods, path }) => {
    const named = methods.filter((method) => method !== "HEAD").join(",");
    return `${named === ANY ? "ANY" : named} ${path}`;
  });
  return [...new Set(lines)];
}

test("the table has every route, once", () => {
  const listed = TABLE.flatMap(([, lines]) => lines);
  expect(listed.toSorted()).toEqual(routesThereAre().toSorted());
});

describe.each(TABLE.flatMap(([outcomes, lines]) => lines.map((line) => [line, outcomes] as const)))(
  "%s",
  (line, outcomes) => {
    const [methods = "", path = ""] = line.split(" ");
    const named = methods === "ANY" ? ANY : methods;
    const all = [...named.split(","), ...(/GET/.test(named) ? ["HEAD"] : [])];

    test.each(all)("%s", async (method) => {
      const { query, ...options } = REQUESTS[`${method} ${path}`] ?? {};
      const request = `${method} ${placed(path)}${query === undefined ? "" : `?${query}`}`;
      const found: Record<string, Outcome> = {};
      // The admin comes last: who may remove something does.
      for (const [name, user] of Object.entries(USERS)) {
        current = user;
        const { status } = await world.ask(request, options);
        found[name] = status === 401 || status === 403 ? status : "in";
      }
      expect(found).toEqual(outcomes);
      expect(world.events.filter(({ name }) => name === "api.request-failed")).toEqual([]);
    });
  },
);
