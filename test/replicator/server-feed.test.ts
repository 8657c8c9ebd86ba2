/** Database names read from a server's update feed, whatever the feed contains. */
import { expect, test } from "vitest";
import type { Fetch } from "../../src/http-client/index.ts";
import { parseReplication } from "../../src/replicator/index.ts";
import { serverOf } from "../../src/replicator/request/watched-place.ts";
import { World } from "../simulation/kernel/world.ts";
import { composeNode } from "../support/compose-node.ts";

const signal = new AbortController().signal;

/** Opens a server with this response, and records the requests that the server receives. */
function open(status: number, json: unknown) {
  const world = new World("server-feed");
  const asked: string[] = [];
  const fetch: Fetch = async ({ url }) => {
    asked.push(url);
    const body = (async function* () {
      yield new TextEncoder().encode(JSON.stringify(json));
    })();
    return { status, headers: new Map(), body, discard: () => {} };
  };
  const { endpoints } = composeNode({ ...world.openNode(), fetch });
  const { source } = parseReplication({ source: "http://far.example/a", target: "b" });
  const address = source.kind === "http" ? serverOf(source)?.server : undefined;
  if (address === undefined) throw new Error("The source is no database of a server");
  return { world, asked, server: endpoints.openServer(address) };
}

const row = (db_name: unknown, type = "updated") => ({ db_name, type, seq: "1-x" });
const ODD_ROWS = [row(7), row(null), "row", null, row("x".repeat(100_000))];

test("latestChanged reads the feed in descending order, and returns each database name once", async () => {
  const results = [row("b"), row("a", "deleted"), ...ODD_ROWS, row("b"), row("ü"), row("c")];
  const { world, asked, server } = open(200, { results, last_seq: "1-x" });
  expect(await world.until(server.latestChanged(signal))).toEqual(["b", "a", "ü", "c"]);
  expect(asked).toEqual(["http://far.example/_db_updates?descending=true&limit=1000"]);
});

test.each<[number, unknown]>([
  [200, { results: 7 }],
  [200, []],
  [200, null],
  [400, { error: "query_parse_error" }],
  [403, { error: "forbidden" }],
  [404, { error: "not_found" }],
  // A server that cannot send the feed in descending order might still send it in ascending order.
  [500, { error: "timeout" }],
])("latestChanged returns no names if the server answers %i %j", async (status, json) => {
  const { world, server } = open(status, json);
  expect(await world.until(server.latestChanged(signal))).toEqual([]);
});

test("updates() skips feed rows that lack a valid database name", async () => {
  const results = [...ODD_ROWS, row("a"), row("b", "deleted")];
  const { world, server } = open(200, { results, last_seq: "2-x" });
  const updates = await world.until(server.updates("1-x", signal));
  expect(updates).toEqual({ names: ["a", "b"], deleted: new Set(["b"]), last: "2-x" });
});

test.each<[unknown, string]>([
  [
    { error: "timeout", reason: "No shards" },
    "503 from http://far.example/_db_updates timeout: No shards",
  ],
  ["<h1>Down</h1>", '503 from http://far.example/_db_updates: "<h1>Down</h1>"'],
])(
  "the error for a failing server contains the status and text of the response: %j",
  async (json, reason) => {
    const { world, server } = open(503, json);
    await expect(world.until(server.lastUpdate(signal))).rejects.toMatchObject({
      error: "server_failed",
      reason,
    });
  },
);
