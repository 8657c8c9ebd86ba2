/**
 * The requests that a run sends to its servers, and its number of consecutive round trips. In
 * virtual time, servers respond immediately, so that only latency takes time.
 */
import { describe, expect, test } from "vitest";
import { Utf8Text } from "../../../src/base/index.ts";
import { type Fetch, SecretsInUse } from "../../../src/http-client/index.ts";
import {
  MemoryRunFailures,
  NO_OWN_CHECKPOINT,
  parseReplication,
  REPLICATOR_CONFIG_DEFAULT,
  ReplicationRun,
  replicationId,
} from "../../../src/replicator/index.ts";
import { World } from "../../simulation/kernel/world.ts";
import { plainAnswer, responseOf } from "../../simulation/network/simulated-network.ts";
import { SERVER_URL, SimulatedServer } from "../../simulation/network/simulated-server.ts";
import { composeNode } from "../../support/compose-node.ts";
import { ADMIN } from "../../support/open-node.ts";
import { unbatched } from "../../support/unbatched.ts";

const ROUND_TRIP_MS = 100;
const TANDEM = "CouchDB/3.5.0 (Tandem 0.1.0)";
const IDS = Array.from({ length: 10 }, (_, number) => `doc-${number}`);

interface Asked {
  /** Requests in the order of their arrival, such as `GET /a/_changes`. */
  readonly requests: readonly string[];
  /** Number of consecutive round trips. */
  readonly tripCount: number;
  readonly checkpointedSequence: unknown;
  readonly docsRead: number;
}

/**
 * Opens a node and a distant server with two databases: `a` with ten documents, and `b` without
 * documents.
 */
async function openDistant(serverName = "CouchDB/3.5.0 (Erlang OTP/25)") {
  const world = new World("round-trips");
  const { kv, databases, ...parts } = composeNode(world.openNode());
  const server = new SimulatedServer({ kv, databases, ...parts });
  let requests: string[] = [];
  /** Callbacks by request. Each callback is called once, before its request is served. */
  const before = new Map<string, () => Promise<unknown>>();
  /** Statuses with which requests are refused, by request. */
  const refused = new Map<string, number>();
  const fetch: Fetch = async (request) => {
    const { pathname } = new URL(request.url);
    const shown = `${request.method} ${pathname.replace(/_local\/.*/, "_local/ID")}`;
    requests.push(shown);
    await world.time.sleep(ROUND_TRIP_MS / 2, request.signal);
    const happening = before.get(shown);
    before.delete(shown);
    await happening?.();
    const status = refused.get(shown);
    const answer = status === undefined ? await server.serve(request) : plainAnswer(status, "{}");
    await world.time.sleep(ROUND_TRIP_MS / 2, request.signal);
    return responseOf({ ...answer, headers: { ...answer.headers, server: serverName } });
  };
  const node = composeNode({ ...world.openNode(), fetch: unbatched(fetch) });
  const create = (name: string) => world.until(kv.transact((tx) => databases.create(tx, name)));
  const write = (name: string, ids: readonly string[]) =>
    kv.transact(async (tx) => {
      const database = await databases.open(tx, name);
      for (const id of ids) {
        const edit = { mode: "interactive", parent: undefined, deleted: false } as const;
        await database.write(tx, { ...edit, id, body: Utf8Text.of("{}"), attachments: [] }, ADMIN);
      }
    });
  const put = (name: string, ids: readonly string[]) => world.until(write(name, ids));
  await create("a");
  await create("b");
  await put("a", IDS);
  const begin = (members: object, expectedAt?: unknown): ReplicationRun => {
    const { runtime, endpoints } = node;
    const { digests } = runtime;
    const asked = { source: `${SERVER_URL}/a`, target: `${SERVER_URL}/b`, ...members };
    const replication = parseReplication(asked);
    const open = (side: "source" | "target") =>
      endpoints.open(replication[side], replication.options, { userName: null });
    return new ReplicationRun({
      runtime,
      source: open("source"),
      target: open("target"),
      replication,
      ids: replicationId(
        { digests, serverUuid: "0".repeat(32), hostName: "", port: 0, serverUrl: "" },
        replication,
      ),
      mayWrite: async () => {},
      failures: new MemoryRunFailures(),
      secrets: new SecretsInUse(),
      ownCheckpoint: NO_OWN_CHECKPOINT,
      copyLimits: REPLICATOR_CONFIG_DEFAULT.copyLimits,
      ...(expectedAt === undefined ? {} : { expectedAt }),
    });
  };
  return {
    world,
    put,
    before,
    refused,
    /** Re-creates a database with another document. */
    async remake(name: string): Promise<void> {
      await kv.transact((tx) => databases.remove(tx, name));
      await kv.transact((tx) => databases.create(tx, name));
      await write(name, ["other"]);
    },
    documentCount: (name: string): Promise<number> =>
      world.until(
        kv.read(async (tx) => (await (await databases.open(tx, name)).info(tx)).documentCount),
      ),
    checkpointCount: (name: string): Promise<number> =>
      world.until(
        kv.read(async (tx) => {
          const { entries } = await (await databases.open(tx, name)).local.page(tx);
          return entries.length;
        }),
      ),
    /** Returns the history of the checkpoint in a database, latest run first. */
    history: (name: string): Promise<readonly { readonly docs_read: number }[]> =>
      world.until(
        kv.read(async (tx) => {
          const { entries } = await (await databases.open(tx, name)).local.page(tx);
          return JSON.parse(entries[0]?.body.text ?? "{}").history;
        }),
      ),
    /** Replaces the checkpoint in a database as another run would. */
    recordOther: (name: string): Promise<unknown> =>
      kv.transact(async (tx) => {
        const database = await databases.open(tx, name);
        const { entries } = await database.local.page(tx);
        for (const { id, revision } of entries) {
          const body = Utf8Text.of('{"session_id":"other","source_last_seq":"1","history":[]}');
          await database.local.write(tx, { id, parent: revision, body });
        }
      }),
    /** Replicates `a` to `b`. `expectedAt` is the start sequence that the run expects. */
    async replicate(members: object = {}, expectedAt?: unknown): Promise<Asked> {
      const run = begin(members, expectedAt);
      requests = [];
      const beganMs = world.time.nowMs;
      const { kind } = await world.until(run.run(new AbortController().signal));
      expect(kind).toBe("completed");
      const tripCount = (world.time.nowMs - beganMs) / ROUND_TRIP_MS;
      const { checkpointedSequence, statistics } = run.progress;
      return { requests, tripCount, checkpointedSequence, docsRead: statistics.docsRead };
    },
  };
}

const BOTH_SIDES = ["GET /a/", "GET /a/_local/ID", "GET /b/", "GET /b/_local/ID"];
const CHANGES = "GET /a/_changes";
/** Requests for the checkpoints that older versions would have stored under other ids. */
const OLD = Array.from({ length: 3 }, () => "GET /b/_local/ID");
const COPIED = ["POST /b/_revs_diff", "POST /a/_bulk_get", "POST /b/_bulk_docs"];
const COMMITTED = ["POST /a/_ensure_full_commit", "POST /b/_ensure_full_commit"];
const BEGUN = ["POST /a/_local/ID", "POST /b/_local/ID"];
const RECORDED = ["PUT /a/_local/ID", "PUT /b/_local/ID"];

const more = (ids: readonly string[]): readonly string[] => ids.map((id) => `more-${id}`);

test("a run without changes first reads the information and checkpoints of both sides concurrently, and then the changes", async () => {
  const distant = await openDistant();
  await distant.replicate();
  const { requests, tripCount } = await distant.replicate();
  expect(requests).toEqual([...BOTH_SIDES, CHANGES]);
  expect(tripCount).toBe(2);
});

test("a run that knows its expected start sequence requests changes immediately", async () => {
  const distant = await openDistant();
  const { checkpointedSequence } = await distant.replicate();
  const none = await distant.replicate({}, checkpointedSequence);
  expect(none.requests).toEqual([CHANGES, ...BOTH_SIDES]);
  expect(none.tripCount).toBe(1);
  await distant.put("a", more(IDS));
  const ten = await distant.replicate({}, checkpointedSequence);
  expect(ten.requests).toHaveLength(12);
  expect(ten.tripCount).toBe(6);
  expect(await distant.documentCount("b")).toBe(20);
});

test("a run that does not start at the expected sequence requests the changes again", async () => {
  const distant = await openDistant();
  const { checkpointedSequence } = await distant.replicate();
  await distant.put("a", more(IDS));
  const { checkpointedSequence: later } = await distant.replicate();
  await distant.world.until(distant.remake("b"));
  const { requests } = await distant.replicate({}, later);
  expect(requests.filter((request) => request === CHANGES)).toHaveLength(2);
  expect(await distant.documentCount("b")).toBe(21);
  const again = await distant.replicate({}, checkpointedSequence);
  expect(again.requests.filter((request) => request === CHANGES)).toHaveLength(2);
});

test("the first run into an empty database requests neither missing revisions nor the checkpoints of older versions", async () => {
  const distant = await openDistant();
  const { requests, tripCount } = await distant.replicate();
  const [, ...copied] = COPIED;
  expect(requests).toEqual([...BOTH_SIDES, CHANGES, ...copied, ...COMMITTED, ...RECORDED]);
  expect(tripCount).toBe(6);
});

describe("the first run between two Tandem databases", () => {
  test("writes each checkpoint in one request, and this request also checks that the database has not been re-created", async () => {
    const distant = await openDistant(TANDEM);
    const { requests, tripCount } = await distant.replicate();
    const [, ...copied] = COPIED;
    expect(requests).toEqual([...BOTH_SIDES, CHANGES, ...copied, ...BEGUN]);
    expect(tripCount).toBe(5);
    expect((await distant.replicate()).requests).toEqual([...BOTH_SIDES, CHANGES]);
  });

  test.each(["a", "b"])(
    "writes no checkpoint to database %s if it is re-created just before the write",
    async (name) => {
      const distant = await openDistant(TANDEM);
      distant.before.set(`POST /${name}/_local/ID`, () => distant.remake(name));
      await expect(distant.replicate()).rejects.toMatchObject({
        error: "checkpoint_commit_failure",
        reason: `instance_start_time on ${name === "a" ? "source" : "target"} database has changed since last checkpoint.`,
      });
      expect(await distant.checkpointCount(name)).toBe(0);
      const { docsRead } = await distant.replicate();
      expect(docsRead).toBe(name === "a" ? 1 : 10);
      expect(await distant.documentCount("b")).toBe(11);
    },
  );

  test.each([403, 404, 405])(
    "falls back to the requests for a CouchDB if the server answers %i",
    async (status) => {
      const distant = await openDistant(TANDEM);
      distant.refused.set("POST /b/_local/ID", status);
      const { requests } = await distant.replicate();
      const [intoA, intoB] = BEGUN;
      const asCouchdb = ["POST /b/_ensure_full_commit", "PUT /b/_local/ID"];
      expect(requests.slice(-4)).toEqual([intoA, intoB, ...asCouchdb]);
      expect(await distant.checkpointCount("b")).toBe(1);
    },
  );
});

describe("a run that resumes between two Tandem databases", () => {
  const openChanged = async () => {
    const distant = await openDistant(TANDEM);
    await distant.replicate();
    await distant.put("a", more(IDS));
    return distant;
  };

  test("writes each checkpoint in one request, and keeps the history of the earlier run", async () => {
    const distant = await openChanged();
    const { requests, tripCount, docsRead } = await distant.replicate();
    expect(requests).toEqual([...BOTH_SIDES, CHANGES, ...COPIED, ...BEGUN]);
    expect(tripCount).toBe(6);
    expect(docsRead).toBe(20);
    for (const name of ["a", "b"]) {
      expect((await distant.history(name)).map(({ docs_read }) => docs_read)).toEqual([20, 10]);
    }
    expect((await distant.replicate()).requests).toEqual([...BOTH_SIDES, CHANGES]);
  });

  test.each(["a", "b"])(
    "writes no checkpoint to database %s if it is re-created just before the write",
    async (name) => {
      const distant = await openChanged();
      distant.before.set(`POST /${name}/_local/ID`, () => distant.remake(name));
      await expect(distant.replicate()).rejects.toMatchObject({
        error: "checkpoint_commit_failure",
        reason: `The checkpoint no longer exists in the ${name === "a" ? "source" : "target"} database.`,
      });
      expect(await distant.checkpointCount(name)).toBe(0);
    },
  );

  test("reads and replaces the checkpoint if another run has written it in the meantime", async () => {
    const distant = await openChanged();
    distant.before.set("POST /b/_local/ID", () => distant.recordOther("b"));
    const { requests } = await distant.replicate();
    const asked = ["GET /b/_local/ID", "POST /b/_ensure_full_commit", "PUT /b/_local/ID"];
    expect(requests.slice(-5)).toEqual([...BEGUN, ...asked]);
    expect(await distant.history("b")).toHaveLength(2);
  });

  test.each([403, 404, 405])(
    "falls back to the requests for a CouchDB if the server answers %i",
    async (status) => {
      const distant = await openChanged();
      distant.refused.set("POST /b/_local/ID", status);
      const { requests } = await distant.replicate();
      expect(requests.slice(-4)).toEqual([...BEGUN, "GET /b/_local/ID", "PUT /b/_local/ID"]);
      expect(await distant.history("b")).toHaveLength(2);
    },
  );
});

test("the first run into a database with documents requests the changes and the checkpoints of older versions concurrently", async () => {
  const distant = await openDistant();
  await distant.put("b", ["other"]);
  const { requests, tripCount } = await distant.replicate();
  expect(requests).toEqual([...BOTH_SIDES, CHANGES, ...OLD, ...COPIED, ...COMMITTED, ...RECORDED]);
  expect(tripCount).toBe(7);
});

test("a run creates the target while it requests the source's changes", async () => {
  const distant = await openDistant();
  const members = { target: `${SERVER_URL}/c`, create_target: true };
  const { requests, tripCount } = await distant.replicate(members);
  expect(requests).toHaveLength(13);
  expect(requests.slice(4, 7)).toEqual([CHANGES, "PUT /c/", "GET /c/"]);
  expect(tripCount).toBe(7);
  expect(await distant.documentCount("c")).toBe(10);
});

test("a run that copies ten changes reads the checkpoints again instead of sending commits", async () => {
  const distant = await openDistant();
  await distant.replicate();
  await distant.put("a", more(IDS));
  const { requests, tripCount } = await distant.replicate();
  const read = ["GET /a/_local/ID", "GET /b/_local/ID"];
  expect(requests).toEqual([...BOTH_SIDES, CHANGES, ...COPIED, ...read, ...RECORDED]);
  expect(tripCount).toBe(7);
});

test("a run commits both sides concurrently if their server can lose acknowledged writes", async () => {
  const distant = await openDistant("CouchDB/2.3.1");
  await distant.replicate();
  await distant.put("a", more(IDS));
  const { requests, tripCount } = await distant.replicate();
  expect(requests).toHaveLength(14);
  for (const request of COMMITTED) expect(requests).toContain(request);
  expect(tripCount).toBe(7);
});

test.each(
  ["CouchDB/3.5.0", "CouchDB/2.3.1"].flatMap((server) =>
    ["a", "b"].map((name) => [name, server] as const),
  ),
)(
  "no checkpoint is written if database %s of a %s is re-created between two responses of the server",
  async (name, server) => {
    const distant = await openDistant(server);
    await distant.replicate();
    await distant.put("a", more(IDS));
    // Re-creates the database after the run has read the checkpoint from it. The new database
    // answers `GET /db`.
    distant.before.set(`GET /${name}/`, async () => {
      await distant.world.time.sleep(1);
      await distant.remake(name);
    });
    await expect(distant.replicate()).rejects.toMatchObject({
      error: "checkpoint_commit_failure",
      reason: `The checkpoint no longer exists in the ${name === "a" ? "source" : "target"} database.`,
    });
    expect(await distant.checkpointCount(name)).toBe(0);
  },
);
