/**
 * Servers whose databases a rule lists, with various permissions and responses. In virtual time.
 */
import { afterEach, expect, test } from "vitest";
import type { Fetch } from "../../src/http-client/index.ts";
import { type JobFilter, parseReplacement } from "../../src/replicator/index.ts";
import { World } from "../simulation/kernel/world.ts";
import { openVirtualNode } from "../support/virtual-node.ts";

type Node = ReturnType<typeof openVirtualNode>;
type Answer = { readonly status: number; readonly json: unknown };

const ROOT = { userName: "root" };
const RULE = { source: "http://far.example/", target: "copy-{1}", databases: ["user-*"] };
const NOTHING: Answer = { status: 404, json: { error: "not_found" } };

const nodes: Node[] = [];
afterEach(async () => {
  for (const node of nodes.splice(0)) await node.stop();
});

/**
 * Opens a node with a rule whose source is a server with these responses. The node has no slots, so
 * the jobs stay as the rule created them.
 */
async function open(
  answer: (path: string, query: URLSearchParams, authorization: string | undefined) => Answer,
) {
  const world = new World("far");
  const asked: string[] = [];
  const fetch: Fetch = async ({ url, headers, signal }) => {
    const { pathname, searchParams } = new URL(url);
    asked.push(pathname);
    // The server does not respond to a long poll within the test.
    await world.time.sleep(searchParams.get("feed") === "longpoll" ? 3_600_000 : 10, signal);
    const { status, json } = answer(pathname, searchParams, headers?.authorization);
    return {
      status,
      headers: new Map(),
      body: (async function* () {
        yield new TextEncoder().encode(JSON.stringify(json));
      })(),
      discard: () => {},
    };
  };
  const node = openVirtualNode({ world, fetch, config: { jobsMax: 0 } });
  nodes.push(node);
  await node.start();
  await world.until(node.replicator.rules.put("users", { ...RULE }, ROOT));
  const summary = async () => (await world.until(node.replicator.rules.get("users")))?.summary;
  const pass = (seconds: number) => world.time.run(world.time.nowMs + seconds * 1000);
  return { node, world, asked, summary, pass };
}

/** Returns names as CouchDB lists them: from `startkey` up to `limit` names. */
function listed(names: readonly string[], query: URLSearchParams): Answer {
  const start = JSON.parse(query.get("startkey") ?? '""');
  const page = names.filter((name) => name >= start).slice(0, Number(query.get("limit")));
  return { status: 200, json: page };
}

const numbered = (count: number) =>
  Array.from({ length: count }, (_, number) => `user-a${String(number).padStart(5, "0")}`);

test("a server with a feed is listed once a minute, in pages", async () => {
  const names = numbered(2_500);
  const { asked, summary, pass } = await open((path, query) => {
    if (path === "/_db_updates") return { status: 200, json: { results: [], last_seq: "7-x" } };
    return path === "/_all_dbs" ? listed(names, query) : NOTHING;
  });
  await pass(30);
  expect(await summary()).toMatchObject({
    jobCount: 2_500,
    matchedCount: 2_500,
    followedBy: "feed",
  });
  expect(asked.filter((path) => path === "/_all_dbs")).toHaveLength(3);
});

test("a server that forbids its feed is listed every few seconds, and a new database has a job within ten seconds", async () => {
  const names = ["other", "user-a"];
  const { summary, pass } = await open((path, query) =>
    path === "/_all_dbs" ? listed(names, query) : { status: 403, json: { error: "forbidden" } },
  );
  await pass(10);
  expect(await summary()).toMatchObject({ jobCount: 1, matchedCount: 1, followedBy: "lists" });
  names.push("user-b");
  await pass(10);
  expect(await summary()).toMatchObject({ jobCount: 2, matchedCount: 2 });
});

test.each<[string, (query: URLSearchParams) => Answer]>([
  ["ignores limit and start", () => ({ status: 200, json: numbered(1_001) })],
  [
    "ignores limit and start, and has more names than a page",
    () => ({ status: 200, json: numbered(1_500) }),
  ],
  [
    "lists invalid names",
    (query) => listed([...numbered(10), "user-\u0000", "user-\ud800"], query),
  ],
  [
    "lists names unordered and twice",
    () => ({ status: 200, json: ["user-b", 7, null, "user-a", "user-b"] }),
  ],
])("a server that %s is listed completely", async (_, all) => {
  const { summary, pass, asked } = await open((path, query) =>
    path === "/_all_dbs" ? all(query) : NOTHING,
  );
  await pass(20);
  const found = await summary();
  expect(found?.failure).toBeUndefined();
  expect(found?.jobCount).toBe(found?.matchedCount);
  expect(found?.jobCount).toBeGreaterThan(1);
  expect(asked.filter((path) => path === "/_all_dbs").length).toBeLessThan(20);
});

test.each<[string, Answer, object]>([
  [
    "refuses to be listed",
    { status: 401, json: { error: "unauthorized", reason: "Sign in." } },
    { error: "unauthorized", reason: `401 from ${RULE.source}_all_dbs unauthorized: Sign in.` },
  ],
  [
    "forbids its list",
    { status: 403, json: { error: "forbidden", reason: "Admins only." } },
    { error: "forbidden", reason: `403 from ${RULE.source}_all_dbs forbidden: Admins only.` },
  ],
  [
    "sends something other than a list",
    { status: 200, json: { no: "list" } },
    { error: "all_dbs_failed" },
  ],
  ["fails", { status: 500, json: { error: "x" } }, { error: expect.any(String) }],
])(
  "a server that %s is listed again later, and the rule shows the reason",
  async (_, answer, failure) => {
    let isFine = false;
    const { summary, pass } = await open((path, query) => {
      if (isFine && path === "/_all_dbs") return listed(["user-a"], query);
      return path === "/_all_dbs" ? answer : NOTHING;
    });
    await pass(600);
    expect(await summary()).toMatchObject({ jobCount: 0, listedMs: undefined, failure });
    isFine = true;
    await pass(120);
    expect(await summary()).toMatchObject({ jobCount: 1, failure: undefined });
  },
);

test("a replacement of credentials also changes the rejected password of a rule without jobs, if account and server match", async () => {
  const login = (password: string) => `Basic ${btoa(`jan:${password}`)}`;
  const refusal = { error: "unauthorized", reason: "Name or password is incorrect." };
  const { node, world, summary, pass } = await open((path, query, authorization) => {
    if (path === "/_session") return NOTHING;
    if (authorization !== login("right")) return { status: 401, json: refusal };
    return path === "/_all_dbs" ? listed(["user-a"], query) : NOTHING;
  });
  const basic = { username: "jan", password: "wrong" };
  const source = { url: RULE.source, auth: { basic } };
  const { rules, credentials, bulk } = node.replicator;
  const owner = { userName: "root", wasAdmin: true };
  await world.until(rules.put("users", { ...RULE, source }, owner));
  await pass(60);
  const reason = expect.stringContaining("(401 unauthorized: Name or password is incorrect.)");
  expect(await summary()).toMatchObject({ failure: { error: "unauthorized", reason } });
  const named = async () => (await world.until(rules.failingPage())).map(({ name }) => name);
  expect(await named()).toEqual(["users"]);
  const replacement = (more: object = {}) =>
    parseReplacement({
      ...{ host: RULE.source, username: "jan" },
      ...{ auth: { basic: { username: "jan", password: "right" } }, ...more },
    });
  const find = (filter: JobFilter, more: object = {}) =>
    world.until(credentials.find(replacement(more), owner, filter));
  const rejected = { error: "unauthorized", host: "far.example:" } as const;
  for (const [filter, more] of [
    [{ ...rejected, host: "other.example" }, {}],
    [{ ...rejected, error: "timeout" }, {}],
    [{ ...rejected, side: "target" }, {}],
    [{ ...rejected, databaseUuid: "another" }, {}],
    [{ ...rejected, owner: "root" }, {}],
    [{ failing: true, paused: true }, {}],
    [rejected, { username: "ann" }],
    [rejected, { host: "https://far.example/" }],
    [rejected, { side: "target" }],
  ] as const) {
    expect((await find(filter as JobFilter, more)).content.rules).toEqual([]);
  }
  const found = await find(rejected);
  expect([found.jobIds, found.content.rules]).toEqual([[], ["users"]]);
  expect((await find({ failing: true })).content.rules).toEqual(["users"]);
  await world.until(bulk.replaceCredentials(found.jobIds, found.content, ROOT));
  await pass(60);
  expect(await summary()).toMatchObject({ jobCount: 1, failure: undefined });
  expect(await named()).toEqual([]);
});

test("a failed listing is repeated after one second, and then at intervals that double up to a minute", async () => {
  const askedSec: number[] = [];
  const { world, pass } = await open((path) => {
    if (path === "/_all_dbs") askedSec.push(world.time.nowMs / 1000);
    return { status: 401, json: {} };
  });
  await pass(300);
  const pauses = askedSec.slice(1).map((sec, index) => Math.round(sec - (askedSec[index] ?? 0)));
  expect(pauses.slice(0, 8)).toEqual([1, 2, 4, 8, 16, 32, 60, 60]);
});

test("a database keeps its job if the server's list lacks it but the database exists", async () => {
  let names = ["user-a", "user-b"];
  const { node, world, summary, pass } = await open((path, query) => {
    if (path === "/_all_dbs") return listed(names, query);
    return path === "/user-a" ? { status: 200, json: { update_seq: 1 } } : NOTHING;
  });
  await world.until(node.replicator.rules.put("users", { ...RULE, delete: "stop" }, ROOT));
  await pass(10);
  expect(await summary()).toMatchObject({ jobCount: 2 });
  names = [];
  await pass(20);
  expect(await summary()).toMatchObject({ jobCount: 1, matchedCount: 0 });
  const { entries } = await world.until(node.replicator.lists.page({ filter: {}, limit: 5 }));
  expect(entries.map(({ jobId }) => jobId.replace(/^.*\|/, ""))).toEqual(["user-a"]);
});
