/**
 * Database names chosen by other servers. None of these names leads to the creation of a system
 * database. In virtual time.
 */
import { afterEach, describe, expect, test } from "vitest";
import { isSystemName, UntrustedName } from "../../../src/databases/index.ts";
import type { FetchRequest, FetchResponse } from "../../../src/http-client/index.ts";
import { parseReplication } from "../../../src/replicator/index.ts";
import { openVirtualNode } from "../../support/virtual-node.ts";

const nodes: ReturnType<typeof openVirtualNode>[] = [];
afterEach(async () => {
  for (const node of nodes.splice(0)) await node.stop();
});

function json(status: number, members: unknown, headers: Readonly<Record<string, string>> = {}) {
  return {
    status,
    headers: new Map(Object.entries({ "content-type": "application/json", ...headers })),
    body: (async function* () {
      yield new TextEncoder().encode(JSON.stringify(members));
    })(),
    discard() {},
  } satisfies FetchResponse;
}

async function open(answer: (request: FetchRequest) => FetchResponse) {
  const sent: FetchRequest[] = [];
  const node = openVirtualNode({
    config: { parkAfterSec: 2, client: { usesSessions: false } as never },
    fetch: async (request) => {
      sent.push(request);
      return answer(request);
    },
  });
  nodes.push(node);
  await node.start();
  await node.createDatabase("_replicator");
  return { ...node, sent };
}

const LISTED = [
  "_replicator",
  "_users",
  "evil/_replicator",
  "evil/_users",
  "evil/_replicator/",
  "evil/_global_changes",
  "evil-replicator",
  "plain",
];

/**
 * Returns the responses of a server that lists these databases. Each database can be replicated.
 */
function hostile({ url }: FetchRequest): FetchResponse {
  const { pathname, searchParams } = new URL(url);
  if (pathname === "/_all_dbs") return json(200, searchParams.has("start_key") ? [] : LISTED);
  if (pathname.includes("_changes")) {
    return json(200, { results: [], last_seq: "1", pending: 0 });
  }
  if (/^\/[^/]+\/$/.test(pathname)) {
    return json(200, { update_seq: "1", instance_start_time: "0" });
  }
  return json(404, { error: "not_found", reason: "missing" });
}

describe("a rule whose source is a hostile server", () => {
  test.each([
    ["{db}", ["*"]],
    ["{1}/_{2}", ["*-*"]],
    ["{1}", ["evil/*", "*"]],
  ])("does not create a system database if its target is %s", async (target, databases) => {
    const node = await open(hostile);
    const { world, replicator, kv } = node;
    const source = "https://evil.example/";
    const rule = { source, target, databases };
    await world.until(replicator.rules.put("all", rule, { userName: "root" }));
    await world.time.run(world.time.nowMs + 60_000);
    const names = await world.until(kv.read((tx) => node.databases.names(tx)));
    expect(names.filter(isSystemName)).toEqual(["_replicator"]);
    const summary = (await world.until(replicator.rules.get("all")))?.summary;
    expect(summary?.matchedCount).toBeGreaterThan(0);
    for await (const { data } of replicator.lists.all({})) {
      const target = data.replication?.target;
      expect(target?.kind === "local" && isSystemName(target.database)).toBe(false);
    }
  });
});

test.each([301, 302, 307, 308])(
  "the replicator does not follow a redirect with status %i to a system database",
  async (status) => {
    const elsewhere = [
      "http://127.0.0.1:5984/_replicator/",
      "http://far.example/_users/",
      "http://far.example/x%2F_replicator/",
    ];
    for (const location of elsewhere) {
      const node = await open(({ url }) =>
        url.startsWith("http://far.example/b/") ? json(status, {}, { location }) : json(200, {}),
      );
      const { world, replicator } = node;
      await node.createDatabase("a");
      await node.put("a", "one", { source: "private", target: "http://evil.example/" });
      const replication = parseReplication({ source: "a", target: "http://far.example/b" });
      const id = await world.until(
        replicator.start(replication, { userName: null, isAdmin: true }),
      );
      await world.until(replicator.ended(id, new AbortController().signal));
      const places = node.sent.map(({ url }) => new URL(url).pathname);
      expect(places.length).toBeGreaterThan(0);
      expect(places.filter((path) => !path.startsWith("/b/"))).toEqual([]);
    }
  },
);

test.each([
  "_replicator",
  "_users",
  "_anything",
  "/_users",
  "a/_replicator",
  "a/_replicator/b",
  "a%2F_replicator",
  "a%252f_USERS",
  "a\\_users",
  "a/_users.couch",
  " _users",
  "a/_replicator\0",
])("only an operator can create a database with the system name %j", (name) => {
  expect(isSystemName(name)).toBe(true);
  const untrusted = new UntrustedName(name);
  expect(untrusted.resolve([], (text) => text).kind).toBe("system");
  expect(untrusted.resolve(["a/_replicator2"], (text) => text).kind).toBe("system");
  expect(untrusted.resolve([name], (text) => text).kind).not.toBe("system");
});
