/**
 * Any request by any user to any route gets a response that the API allows, and the node answers
 * the next request. No user sees the secrets of another user, and no job gets rights that its
 * author lacks.
 *
 * Requests are drawn from a seed: valid requests for each route, with random changes.
 * `FUZZ_COUNT=1000000 FUZZ_SEED=7 npx vitest run test/server/any-route.test.ts` sends more
 * requests, from another seed. A failure contains the number of its request.
 */
import { expect, test } from "vitest";
import { apiRoutes } from "../../src/api/api.ts";
import type { User } from "../../src/api/index.ts";
import { ServerStoppingError } from "../../src/base/index.ts";
import type { JobEntry } from "../../src/replicator/index.ts";
import { ADMIN, type Answer, type OpenApi } from "../api/api.fixture.ts";
import { SeededRandom } from "../simulation/kernel/seeded-random.ts";
import { openApiNode, openWholeApi } from "./whole-api.fixture.ts";

const COUNT = Number(process.env.FUZZ_COUNT ?? 5_000);
const SEED = Number(process.env.FUZZ_SEED ?? 1);
/**
 * Number of requests before the test opens a new world. Requests change the world: some settings,
 * for example, make the node refuse all further requests.
 */
const WORLD_REQUESTS = 250;
/**
 * Number of event loop turns after which the client of a request disconnects. Some requests wait
 * for an event that never occurs in this test.
 */
const TURNS_MAX = 1_000;

const ID = "a";
const REVISION = "1-967a00dff5e02add41819138abb3284d";
const ATTACHMENT = { content_type: "text/plain", data: "YWJj" };
const DOCUMENT = { _id: ID, n: 1, _attachments: { file: ATTACHMENT } };
const COPY = { source: "films", target: "copy" };

/** Values for the placeholders of a path. Most of the named objects exist. */
const PLACES: Readonly<Record<string, readonly string[]>> = {
  "{database}": [
    ...["films", "films", "films", "_replicator", "_users", "none"],
    ...["x%2F_replicator", "x%2F_users", "_Replicator", "_replicator%2F", "_dbs"],
  ],
  "{node}": ["_local", "nonode@nohost"],
  "{section}": ["replicator", "couchdb", "chttpd_auth", "log", "x"],
  "{key}": ["max_jobs", "max_document_size", "level", "x"],
  "{attachment...}": ["file", "a/b"],
  "{file...}": ["index.html"],
};
const NAMES = [ID, "b", "_design/d", "_local/l", "_replicator%2Fjob", "films", "none"];
const ODD_SEGMENTS = [
  "",
  "%",
  "%00",
  "%ff",
  "..",
  "+",
  "_x",
  "%F0%9F%8E%AC",
  "x".repeat(600),
  "__proto__",
];

/** An endpoint that refers to a secret of the node. Only administrators may use such references. */
const REFERRING = {
  url: "https://a.example/films",
  auth: { basic: { username: "jan", password: "env:CREDENTIAL_A" } },
};
const leafOf = (hash: string) => ({ ...COPY, _id: "job", _rev: `2-${hash}`, source: REFERRING });

/**
 * Secret in a replication document of the administrator. It must be hidden from all other users.
 */
const SECRET = "Kw7-password-of-a-document";

/** Users who send requests. `sue` may write replication documents. */
const USERS: readonly User[] = [
  ADMIN,
  { name: "sue", roles: ["_replicator"], isAdmin: false },
  { name: null, roles: [], isAdmin: false },
];

/**
 * Request bodies, each with a pattern for the routes that expect it. One request in eight gets any
 * of the bodies.
 */
const BODIES: readonly (readonly [RegExp, unknown])[] = [
  [/_bulk_docs$/, { docs: [DOCUMENT, { _id: "b", _rev: REVISION }] }],
  [
    /_bulk_docs$/,
    { new_edits: false, docs: [{ _id: ID, _revisions: { start: 2, ids: ["b", "a"] } }] },
  ],
  [/_bulk_get$/, { docs: [{ id: ID, rev: REVISION, atts_since: [REVISION] }] }],
  [/_(revs_diff|missing_revs|purge)$/, { [ID]: [REVISION, "2-b"] }],
  [/_(all|design|local)_docs$/, { keys: [ID, "b"], include_docs: true, limit: 2 }],
  [/queries$/, { queries: [{ keys: [ID] }, { startkey: "a", endkey: "c", descending: true }] }],
  [
    /_(find|explain)$/,
    { selector: { n: { $gt: 0 }, $or: [{ a: 1 }] }, fields: ["n"], limit: 3, sort: ["_id"] },
  ],
  [/_changes$/, { selector: { n: 1 }, doc_ids: [ID], fields: ["n"] }],
  [/_security$/, { admins: { names: ["x"], roles: [] }, members: { names: [], roles: ["y"] } }],
  [/_(revs_limit|purged_infos_limit)$/, 100],
  [/_session$/, { name: "root", password: "secret" }],
  [/_dbs_info$/, { keys: ["films"] }],
  [/_replicate$/, { ...COPY, cancel: true }],
  [/_replicate$/, { ...COPY, continuous: true, selector: { n: 1 }, doc_ids: [ID] }],
  [/_config/, "value"],
  [
    /_tandem\/rules/,
    { source: "local", target: "https://a.example/{1}", databases: ["a*b"], except: ["*x"] },
  ],
  [/_tandem\/budgets/, { read: { requests: 5 }, bytes_per_sec: 1 }],
  [/_tandem\/jobs/, { sequence: "0", since: 0 }],
  [
    /_design/,
    { views: { v: { map: "function(doc) { emit(doc._id); }" } }, filters: { f: "function() {}" } },
  ],
  [/./, DOCUMENT],
  [
    /./,
    {
      ...COPY,
      _id: "job",
      owner: "joe",
      create_target: true,
      source: { url: "http://127.0.0.1:1/a" },
    },
  ],
  // Values of a replication document's members. Some of them refer to secrets of the node.
  [
    /_bulk_docs$/,
    {
      new_edits: false,
      docs: ["a", "b"].map((hash) => ({
        ...leafOf(hash),
        _revisions: { start: 2, ids: [hash, "x"] },
      })),
    },
  ],
  [/./, { ...COPY, _id: "job", source: REFERRING, continuous: true }],
  [/_tandem\/rules/, { source: { url: "https://a.example/" }, target: "{db}", databases: ["*"] }],
  [/./, { _id: "org.couchdb.user:joe", name: "joe", type: "user", roles: [], password: "pw" }],
];
const ODD_VALUES: readonly unknown[] = [
  null,
  true,
  false,
  0,
  -1,
  1.5,
  1e308,
  2 ** 53,
  "",
  "x",
  "_x",
  "\u0000",
  "\ud83d\ude00",
  REVISION,
  "1-",
  "0-0",
  "99999999999999999999-a",
  "now",
  [],
  [1],
  [[]],
  {},
  { "": "" },
  { $not: {} },
  { $regex: "(" },
  ["a", null],
];
const QUERY: Readonly<Record<string, readonly string[]>> = {
  rev: [REVISION, "1-x", "x", "all"],
  open_revs: ["all", `["${REVISION}"]`, "[1]", "x"],
  atts_since: [`["${REVISION}"]`, "{}"],
  revs: ["true", "x"],
  revs_info: ["true"],
  latest: ["true"],
  conflicts: ["true"],
  meta: ["true"],
  attachments: ["true"],
  new_edits: ["false", "true", "x"],
  batch: ["ok"],
  key: ['"a"', "x"],
  keys: ['["a"]', "1"],
  startkey: ['"a"', "[1]"],
  endkey: ['"b"', "null"],
  limit: ["0", "1", "-1", "x", "1e9"],
  skip: ["1", "99999999999999999999"],
  descending: ["true", "x"],
  include_docs: ["true"],
  since: ["now", "0", "x", "5-x"],
  style: ["all_docs", "x"],
  heartbeat: ["true", "1", "0", "x"],
  feed: ["normal", "longpoll", "continuous", "eventsource", "x"],
  timeout: ["0", "1", "x"],
  states: ["failed", "x"],
  filter: ["_doc_ids", "_selector", "_design", "_view", "d/f", "x", "_x"],
  view: ["d/v", "x"],
  count: ["3", "-1", "x"],
  all: ["true"],
  state: ["pending", "x"],
  q: ["x"],
  n: ["0"],
  format: ["x"],
  overwrite: ["true"],
  next: ["/x"],
};
const HEADERS: Readonly<Record<string, readonly string[]>> = {
  "content-type": [
    "application/json",
    "text/plain",
    "multipart/related; boundary=x",
    "multipart/form-data; boundary=x",
    "",
  ],
  "content-encoding": ["gzip", "br"],
  "content-length": ["x", "99999999999"],
  "content-md5": ["x"],
  range: ["bytes=1-", "bytes=9-1", "x"],
  "if-match": [REVISION, "x"],
  "if-none-match": ["*", `"${REVISION}"`],
  destination: ["c", `b?rev=${REVISION}`, "%ff", "_x", ""],
  accept: ["multipart/mixed", "application/json", "text/plain"],
  "accept-encoding": ["gzip"],
  referer: ["http://127.0.0.1:5984/", "x"],
  "last-event-id": ["0", "x"],
  authorization: ["Basic x", "Bearer x"],
  cookie: ["AuthSession=x"],
};

interface Drawn {
  readonly user: User;
  readonly request: string;
  readonly body: string | Uint8Array;
  readonly headers: Readonly<Record<string, string>>;
}

type Routes = readonly { readonly methods: readonly string[]; readonly path: string }[];

class Draws {
  readonly #random: SeededRandom;
  readonly #routes: Routes;

  constructor(seed: number, routes: Routes) {
    this.#random = new SeededRandom(String(seed));
    this.#routes = routes;
  }

  next(): Drawn {
    const { methods, path } = this.#oneOf(this.#routes);
    const method = this.#oneOf(methods);
    const placed = path.replace(/\{[^}]*\}/g, (place) => {
      if (this.#in(12)) return this.#oneOf(ODD_SEGMENTS);
      return this.#oneOf(PLACES[place] ?? NAMES);
    });
    const query = this.#some(QUERY, 3).map(
      ([name, value]) => `${name}=${encodeURIComponent(value)}`,
    );
    const headers = {
      "content-type": "application/json",
      ...Object.fromEntries(this.#some(HEADERS, 1)),
    };
    const user = this.#oneOf(USERS);
    return {
      user,
      request: `${method} ${placed}?${query.join("&")}`,
      body: this.#body(path),
      headers,
    };
  }

  #body(path: string): string | Uint8Array {
    if (this.#in(6)) return "";
    const fitting = BODIES.filter(([pattern]) => pattern.test(path));
    const [, value] = this.#oneOf(this.#in(8) ? BODIES : fitting);
    const json = JSON.stringify(this.#in(3) ? value : this.#changed(value));
    if (this.#in(10)) return `--x\r\n\r\n${json}\r\n--x\r\n\r\nabc\r\n--x--`;
    return this.#in(12) ? this.#damaged(json) : json;
  }

  /** Returns a copy of the value in which one part is changed or removed. */
  #changed(value: unknown): unknown {
    const isInner = typeof value === "object" && value !== null && Object.keys(value).length > 0;
    if (!isInner || this.#in(5)) return this.#oneOf(ODD_VALUES);
    if (Array.isArray(value)) {
      const at = this.#random.integer(value.length);
      if (this.#in(6)) return [...value, ...value];
      return value.with(at, this.#changed(value[at]));
    }
    const name = this.#oneOf(Object.keys(value));
    const { [name]: inner, ...others } = value as Record<string, unknown>;
    if (this.#in(8)) return others;
    return { ...others, [this.#in(10) ? "_x" : name]: this.#changed(inner) };
  }

  #damaged(text: string): Uint8Array {
    const bytes = Buffer.from(text);
    const at = this.#random.integer(bytes.length);
    if (this.#in(2)) return bytes.subarray(0, at);
    bytes[at] = this.#random.integer(256);
    return bytes;
  }

  #some(table: Readonly<Record<string, readonly string[]>>, countMax: number): [string, string][] {
    const count = this.#random.integer(countMax + 1);
    return Array.from({ length: count }, () => {
      const name = this.#oneOf(Object.keys(table));
      return [name, this.#oneOf(table[name] as readonly string[])];
    });
  }

  #oneOf<Item>(items: readonly Item[]): Item {
    return items[this.#random.integer(items.length)] as Item;
  }

  /** Returns true for one in `count` calls, on average. */
  #in(count: number): boolean {
    return this.#random.integer(count) === 0;
  }
}

interface FuzzedWorld extends OpenApi {
  /** User who sends the next requests. */
  user: User;
  entries(): AsyncIterable<JobEntry>;
}

/**
 * Opens a world with a database, documents, and jobs that do not run. One of the jobs has a secret
 * of the administrator.
 */
async function openWorld(): Promise<FuzzedWorld> {
  const node = openApiNode();
  const world: FuzzedWorld = {
    ...(await openWholeApi({ node, authenticate: async () => world.user })),
    user: ADMIN,
    entries: () => node.replicator.lists.all({}),
  };
  for (const name of ["films", "_replicator", "_users"]) await world.ask(`PUT /${name}`);
  const security = { admins: { roles: ["_admin"] }, members: { roles: [] } };
  for (const name of ["films", "_replicator"]) {
    await world.ask(`PUT /${name}/_security`, { body: security });
  }
  await fill(world);
  return world;
}

/** Expects that a job refers to a secret of the node only if an administrator requested the job. */
async function expectRights(world: FuzzedWorld, what: string): Promise<void> {
  for await (const { jobId, data } of world.entries()) {
    for (const side of [data.replication?.source, data.replication?.target]) {
      const refers = side?.kind === "http" && (side.references ?? []).length > 0;
      if (refers) expect([jobId, data.wasAdmin], what).toEqual([jobId, true]);
    }
  }
}

async function fill({ ask }: OpenApi): Promise<void> {
  await ask("PUT /films");
  const docs = [
    { ...DOCUMENT, _rev: REVISION },
    { _id: "_design/d", _rev: "1-a", filters: { f: "function() { return true; }" } },
  ];
  await ask("POST /films/_bulk_docs", { body: { new_edits: false, docs } });
  await ask("PUT /_replicator/job", { body: COPY });
  const source = {
    url: "https://a.example/x",
    auth: { basic: { username: "j", password: SECRET } },
  };
  await ask("PUT /_replicator/secret", { body: { ...COPY, source } });
}

/**
 * Returns the response. If no response arrives, aborts the request as a server does when it stops.
 */
async function answerOf(
  world: OpenApi,
  { user: _, request, ...options }: Drawn,
): Promise<Answer | undefined> {
  const client = new AbortController();
  let isOver = false;
  const answered = world.ask(request, { ...options, signal: client.signal }).then(
    (answer) => answer,
    // The stream of a feed is aborted when its client disconnects.
    (error: unknown) => {
      if (!client.signal.aborted) throw error;
      return undefined;
    },
  );
  const over = (): void => {
    isOver = true;
  };
  answered.then(over, over);
  for (let turn = 0; turn < TURNS_MAX && !isOver; turn++) await new Promise(setImmediate);
  if (!isOver) client.abort(new ServerStoppingError());
  return answered;
}

/** Requests for HTML pages. Their error responses are not JSON in CouchDB either. */
const PAGES = /^\w+ \/(favicon\.ico|_utils|_dashboard)/;
const REPLICATE = /^POST \/_replicate\?/;

function expectAnswer(answer: Answer, { request }: Drawn, what: string): void {
  const { status, headers, json } = answer;
  const isKnown = status < 500 || status === 501 || status === 503 || REPLICATE.test(request);
  expect(isKnown, `${what} is answered ${status}: ${answer.text}`).toBe(true);
  if (status < 400 || request.startsWith("HEAD ") || PAGES.test(request)) return;
  // The response is an array with one outcome per document.
  if (status === 417 && Array.isArray(json)) return;
  expect(headers["Content-Type"], what).toBe("application/json");
  expect(json, what).toMatchObject({ error: expect.any(String), reason: expect.any(String) });
}

test(`each of ${COUNT} requests drawn from seed ${SEED} gets a response that the API allows`, async () => {
  let world = await openWorld();
  const draws = new Draws(
    SEED,
    apiRoutes(world.parts, { answer: world.api, isBatched: () => false, batched: () => [] }),
  );
  for (let number = 0; number < COUNT; number++) {
    if (number % WORLD_REQUESTS === WORLD_REQUESTS - 1) {
      expect((await world.ask("GET /_up")).status, `_up after ${number} requests`).toBe(200);
      await expectRights(world, `After ${number} requests`);
      world = await openWorld();
    }
    const drawn = draws.next();
    const what = `Request ${number}, ${JSON.stringify({ ...drawn, body: String(drawn.body) })},`;
    world.user = drawn.user;
    const answer = await answerOf(world, drawn);
    if (!drawn.user.isAdmin) expect(answer?.text ?? "", what).not.toContain(SECRET);
    world.user = ADMIN;
    expect(
      world.events.filter(({ name }) => name === "api.request-failed"),
      what,
    ).toEqual([]);
    if (answer !== undefined) expectAnswer(answer, drawn, what);
    if (drawn.request.startsWith("DELETE ")) await fill(world);
  }
});
