/**
 * Snapshot of a one-shot job. The job copies the documents that existed when it began, whatever is
 * written in the meantime.
 */
import { describe, expect, test } from "vitest";
import { Utf8Text } from "../../../src/base/index.ts";
import type { Database } from "../../../src/databases/index.ts";
import { createSystemRuntime } from "../../../src/host/index.ts";
import { openClock } from "../../../src/http-client/fetch.fixture.ts";
import {
  type FetchRequest,
  Grants,
  RateLimits,
  RequestFailedError,
  SecretsInUse,
} from "../../../src/http-client/index.ts";
import type { Transaction } from "../../../src/kv/index.ts";
import {
  HttpEndpoint,
  parseReplication,
  REPLICATOR_CONFIG_DEFAULT,
} from "../../../src/replicator/index.ts";
import { openFilms } from "../../api/api.fixture.ts";
import { ADMIN } from "../../support/open-node.ts";
import { openVirtualNode } from "../../support/virtual-node.ts";

const FOREVER = new AbortController().signal;
const ALL = { since: 0, continuous: false, selection: { kind: "all" } } as const;
const ONE_SHOT = { ...ALL, winningRevisionsOnly: false };
/** Ids of the initial documents, whose changes do not fit in one page. */
const BEFORE = Array.from(
  { length: 2500 },
  (_, number) => `doc-${String(number).padStart(4, "0")}`,
);

/**
 * Number of added documents after which the source stops growing. Without this limit, a test of a
 * job that never reaches its upper bound would not end.
 */
const ADDED_MAX = 6000;

async function add(tx: Transaction, database: Database, ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    const edit = { mode: "interactive", parent: undefined, deleted: false } as const;
    await database.write(tx, { ...edit, id, body: Utf8Text.of("{}"), attachments: [] }, ADMIN);
  }
}

test("a one-shot job ends even if its source grows with each document that it copies", async () => {
  let addedCount = 0;
  const node = openVirtualNode({
    hooks: [
      {
        appliesTo: (database) => database === "b",
        beforeWrite: async (tx, _database, edit) => {
          const source = await node.databases.open(tx, "a");
          if (addedCount < ADDED_MAX) await add(tx, source, [`later-${addedCount++}`]);
          return { edit };
        },
      },
    ],
  });
  const { world, kv, databases, replicator } = node;
  await node.start();
  for (const name of ["a", "b"]) await node.createDatabase(name);
  await world.until(kv.transact(async (tx) => add(tx, await databases.open(tx, "a"), BEFORE)));
  // The job reads only a few changes ahead, so that the source grows while the job reads it.
  const body = { source: "a", target: "b", worker_processes: 1, worker_batch_size: 50 };
  const replication = parseReplication(body);
  const id = await world.until(replicator.start(replication, { userName: null, isAdmin: true }));
  const outcome = await world.until(replicator.ended(id, FOREVER));
  expect(outcome).toMatchObject({
    kind: "completed",
    result: { history: [{ docs_written: BEFORE.length }] },
  });
  const copied = await world.until(
    kv.read(async (tx) => (await databases.open(tx, "b")).changes.page(tx, {})),
  );
  expect(copied.entries.map(({ id: copiedId }) => copiedId).toSorted()).toEqual(BEFORE);
  expect(addedCount).toBeGreaterThanOrEqual(BEFORE.length);
  await node.stop();
});

test("the next job starts at the first job's upper bound and copies later changes", async () => {
  const node = openVirtualNode({});
  const { world, replicator } = node;
  await node.start();
  for (const name of ["a", "b"]) await node.createDatabase(name);
  const replication = parseReplication({ source: "a", target: "b" });
  const requester = { userName: null, isAdmin: true };
  const copy = async () => {
    const id = await world.until(replicator.start(replication, requester));
    return world.until(replicator.ended(id, FOREVER));
  };
  await node.put("a", "first", {});
  expect(await copy()).toMatchObject({ result: { history: [{ docs_written: 1 }] } });
  await node.put("a", "second", {});
  expect(await copy()).toMatchObject({ result: { history: [{ docs_read: 2 }, { docs_read: 1 }] } });
  expect(await copy()).toMatchObject({ result: { no_changes: true } });
  await node.stop();
});

test("a normal feed of a local database ends with the last change that existed when the request arrived", async () => {
  const api = await openFilms();
  const docs = (prefix: string) => BEFORE.map((id) => ({ _id: `${prefix}-${id}` }));
  await api.ask("POST /films/_bulk_docs", { body: { docs: docs("before") } });
  const feed = await api.stream("GET /films/_changes");
  let text = "";
  for (let next = await feed.next(), round = 0; !next.done; next = await feed.next(), round++) {
    text += next.value;
    if (round < 10)
      await api.ask("POST /films/_bulk_docs", { body: { docs: docs(`during-${round}`) } });
  }
  const { results, pending } = JSON.parse(text);
  expect(results.map(({ id }: { id: string }) => id)).toEqual(BEFORE.map((id) => `before-${id}`));
  expect(pending).toBeGreaterThan(0);
});

describe("a one-shot feed over HTTP", () => {
  /** After this piece of a response, the server resets the connection. */
  const BREAK = "\0break";

  function open(answers: readonly (readonly string[])[], retryCountMax = 0) {
    const asked: URLSearchParams[] = [];
    const { client, options } = REPLICATOR_CONFIG_DEFAULT;
    const { source } = parseReplication({ source: "http://host/db", target: "b" });
    if (source.kind !== "http") throw new Error("It is a URL");
    const clock = openClock();
    const fetch = async ({ method, url }: FetchRequest) => {
      const pieces = answers[asked.length] ?? [];
      asked.push(new URL(url).searchParams);
      return {
        status: 200,
        headers: new Map(),
        body: (async function* () {
          for (const piece of pieces) {
            if (piece === BREAK) throw new RequestFailedError({ method, url, cause: "ECONNRESET" });
            yield new TextEncoder().encode(piece);
          }
        })(),
        discard: () => {},
      };
    };
    const endpoint = new HttpEndpoint(
      {
        runtime: { ...createSystemRuntime(), clock },
        fetch,
        retry: { retryCountMax, failingMsMax: 60_000 },
        rateLimits: new RateLimits(),
        grants: new Grants(),
        secrets: new SecretsInUse(),
        tls: REPLICATOR_CONFIG_DEFAULT.tls,
        client,
        userAgent: "Tandem",
        parseMultipart: async function* () {},
      },
      source,
      options,
    );
    return { endpoint, asked, slept: clock.slept };
  }

  async function itemsOf(changes: ReturnType<HttpEndpoint["changes"]>): Promise<unknown[]> {
    const found: unknown[] = [];
    for await (const items of changes) {
      for (const { id, sequence } of items) found.push(id ?? { position: sequence });
    }
    return found;
  }

  const row = (number: number) =>
    `{"seq":"${number}-x","id":"doc-${number}","changes":[{"rev":"1-a"}]}`;

  test("requests changes without a limit, and returns rows as soon as they are complete", async () => {
    const pieces = [`{"results":[\n${row(1)}`, `,\n${row(2)},`, `\n${row(3)}\n],"last_seq":"4-x"}`];
    const { endpoint, asked } = open([pieces]);
    const changes = endpoint.changes(ONE_SHOT, FOREVER)[Symbol.asyncIterator]();
    const { value: first } = await changes.next();
    // The second row is complete because a comma follows it.
    expect(first).toMatchObject([{ id: "doc-1" }, { id: "doc-2" }]);
    const rest = { [Symbol.asyncIterator]: () => changes };
    expect(await itemsOf(rest)).toEqual(["doc-3", { position: "4-x" }]);
    expect(Object.fromEntries(asked[0] ?? [])).toEqual({
      feed: "normal",
      heartbeat: "10000",
      style: "all_docs",
      since: "0",
    });
    expect(asked.length).toBe(1);
  });

  test("after a response is cut off, the next request continues after the last complete row", async () => {
    const { endpoint, asked, slept } = open([
      [`{"results":[\n${row(1)},\n${row(2)},\n${row(3).slice(0, 20)}`, BREAK],
      // A proxy ends this truncated response without an error.
      [`{"results":[\n${row(3)},\n${row(4)},\n`],
      [`{"results":[\n${row(5)}\n],"last_seq":"5-x"}`],
    ]);
    expect(await itemsOf(endpoint.changes(ONE_SHOT, FOREVER))).toEqual(
      [1, 2, 3, 4, 5].map((number) => `doc-${number}`),
    );
    expect(asked.map((parameters) => parameters.get("since"))).toEqual(["0", "2-x", "4-x"]);
    expect(slept.length).toBeGreaterThanOrEqual(2);
  });

  test("a response that is cut off before its first row is retried like a failed request", async () => {
    const broken = ['{"results":[\n', BREAK];
    const { endpoint, asked } = open([broken, broken, broken, broken], 2);
    await expect(itemsOf(endpoint.changes(ONE_SHOT, FOREVER))).rejects.toThrow(RequestFailedError);
    expect(asked.length).toBe(3);
  });

  test("stops retrying if every response repeats the same row and is cut off", async () => {
    const broken = [`{"results":[\n${row(1)},\n`, BREAK];
    const { endpoint, asked } = open([broken, broken, broken, broken, broken]);
    await expect(itemsOf(endpoint.changes(ONE_SHOT, FOREVER))).rejects.toThrow(RequestFailedError);
    expect(asked.length).toBe(2);
  });

  test.each([
    ["is not JSON", ["<html>log in</html>"]],
    ["has no rows", ['{"error":"oops","reason":"none"}']],
    ["has rows that are not a list", ['{"results":7,"last_seq":1}']],
    ["does not contain the last sequence", [`{"results":[\n${row(1)}\n]}`]],
  ])("if a response %s, the error names the request", async (_, pieces) => {
    const { endpoint } = open([pieces]);
    await expect(itemsOf(endpoint.changes(ONE_SHOT, FOREVER))).rejects.toMatchObject({
      error: "changes_req_failed",
      reason: expect.stringContaining("200 from http://host/db/_changes"),
    });
  });

  test("ignores rows with an empty id, and heartbeats between rows", async () => {
    const nameless = '{"seq":"2-x","id":"","changes":[{"rev":"1-a"}]}';
    const { endpoint } = open([
      ["\n\n", '{"results":[\n', "\n", `${row(1)},\n\n`, `${nameless},\n`, "\n", row(3), "\n],"],
    ]);
    await expect(itemsOf(endpoint.changes(ONE_SHOT, FOREVER))).rejects.toThrow(RequestFailedError);
    const whole = open([["\n", `{"results":[\n${row(1)},\n\n${nameless}\n],"last_seq":"2-x"}`]]);
    expect(await itemsOf(whole.endpoint.changes(ONE_SHOT, FOREVER))).toEqual(["doc-1"]);
  });
});
