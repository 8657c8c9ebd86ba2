/** Conditions under which a run may write a checkpoint. */
import { afterEach, describe, expect, test } from "vitest";
import type { Runtime } from "../../../src/base/index.ts";
import { type Fetch, type FetchRequest, SecretsInUse } from "../../../src/http-client/index.ts";
import {
  MemoryRunFailures,
  NO_OWN_CHECKPOINT,
  parseReplication,
  REPLICATION_JOB_TYPE,
  REPLICATOR_CONFIG_DEFAULT,
  ReplicationRun,
  StopRequest,
} from "../../../src/replicator/index.ts";
import { deferred } from "../../support/deferred.ts";
import { type Node, openNode } from "../../support/open-node.ts";
import { FAR_URL, type FarServer, type Intercept, openFarServer } from "./far-server.fixture.ts";

const USER = { userName: null, isAdmin: true };
/**
 * `Server` header of CouchDB. If the server were a Tandem, the replicator would compare and write a
 * checkpoint in one request.
 */
const COUCHDB = "CouchDB/3.5.0 (Erlang OTP/25)";
const FOREVER = new AbortController().signal;
const nodes: Node[] = [];

afterEach(async () => {
  for (const node of nodes.splice(0)) await node.stop();
});

/**
 * Opens a node with a database `a` that contains these documents, and a server that identifies as
 * CouchDB and has an empty database `b`.
 */
async function open(ids: readonly string[], intercept: Intercept = (_, pass) => pass()) {
  const far = await openFarServer(async (request, pass) => {
    const answer = await intercept(request, pass);
    return { ...answer, headers: new Map([...answer.headers, ["server", COUCHDB]]) };
  });
  await far.ask("PUT /b");
  const node = await openNode({ fetch: far.fetch });
  nodes.push(node);
  await node.createDatabase("a");
  for (const id of ids) await node.put("a", id, "{}");
  return { far, node };
}

/** Starts a job that writes no checkpoint before it ends. */
function start(node: Node, more: object = {}): Promise<string> {
  const members = { source: "a", target: `${FAR_URL}/b`, checkpoint_interval: 3_600_000, ...more };
  return node.replicator.start(parseReplication(members), USER);
}

const localsOf = async (far: FarServer): Promise<string[]> =>
  (await far.ask("GET /b/_local_docs")).json.rows.map(({ id }: { id: string }) => id);

const isCheckpoint = ({ method, url }: FetchRequest): boolean =>
  method === "PUT" && url.includes("/_local");

/**
 * Starts a job, and pauses it while its run writes the second document. The write fails when the
 * test calls `release`.
 */
async function stopHalfway() {
  const first = deferred();
  const held = deferred();
  const released = deferred();
  const { far, node } = await open(["first"], async (request, pass) => {
    const isWrite = request.url.endsWith("/_bulk_docs");
    if (isWrite && Buffer.from(request.body as Uint8Array).includes('"second"')) {
      held.resolve();
      await released.promise;
      throw Object.assign(new Error("The connection broke"), { code: "ECONNRESET" });
    }
    const answer = await pass();
    if (isWrite) first.resolve();
    return answer;
  });
  node.start();
  const jobId = await start(node, { continuous: true });
  await first.promise;
  await node.put("a", "second", "{}");
  await held.promise;
  await node.replicator.commands.pause(jobId, { userName: null });
  return { far, node, jobId, release: () => released.resolve() };
}

test("a run that is asked to stop writes a last checkpoint", async () => {
  const { far, node, release } = await stopHalfway();
  release();
  await node.event("replication.ended", ({ state }) => state === "pending");
  expect((await far.ask("GET /b")).json.doc_count).toBe(1);
  expect(await localsOf(far)).toHaveLength(1);
});

test("a run that has lost its job writes no checkpoint, even if it has copied documents", async () => {
  const { far, node, jobId, release } = await stopHalfway();
  const name = { type: REPLICATION_JOB_TYPE, id: jobId };
  await node.kv.transact((tx) => node.jobs.remove(tx, name));
  release();
  await node.event("replication.halted");
  expect((await far.ask("GET /b")).json.doc_count).toBe(1);
  expect(await localsOf(far)).toEqual([]);
});

/**
 * Returns a function that wraps a runtime. In the wrapped runtime, sleeps of the durations
 * `durationsMs` end immediately.
 */
const hurried =
  (...durationsMs: readonly number[]) =>
  (system: Runtime): Runtime => {
    const { clock } = system;
    const sleep = (durationMs: number, signal?: AbortSignal) =>
      clock.sleep(durationsMs.includes(durationMs) ? 0 : durationMs, signal);
    const { nowMs, monotonicMs } = clock;
    return {
      ...system,
      clock: { nowMs: nowMs.bind(clock), monotonicMs: monotonicMs.bind(clock), sleep },
    };
  };

test("a cancelled continuous job writes a last checkpoint, and the same replication later resumes from it", async () => {
  const writes: string[] = [];
  const { far, node } = await open(["one"], ({ url, body }, pass) => {
    if (url.endsWith("/_bulk_docs")) writes.push(Buffer.from(body as Uint8Array).toString());
    return pass();
  });
  node.start();
  const first = await start(node, { continuous: true });
  await node.event("replication.copied");
  expect(await localsOf(far)).toEqual([]);
  const id = (await node.replicator.find(first))?.data.replicationId;
  expect(await node.replicator.cancel(first, USER)).toBe(id);
  expect(await localsOf(far)).toHaveLength(1);
  expect(await node.replicator.find(first)).toBeUndefined();
  await node.put("a", "two", "{}");
  node.events.splice(0);
  const second = await start(node, { continuous: true });
  expect(second).toBe(first);
  await node.event("replication.copied");
  const writesOf = (name: string) => writes.filter((write) => write.includes(`"${name}"`));
  expect([writesOf("one").length, writesOf("two").length]).toEqual([1, 1]);
});

test("if the target does not respond, a cancel waits no longer than the time limit of the last checkpoint", async () => {
  let isDead = false;
  const far = await openFarServer((request, pass) => {
    if (!isDead) return pass();
    return new Promise((_, reject) => {
      const { signal } = request;
      signal.addEventListener("abort", () => reject(signal.reason));
    });
  });
  await far.ask("PUT /b");
  const node = await openNode({ fetch: far.fetch, runtimeOver: hurried(5000) });
  nodes.push(node);
  await node.createDatabase("a");
  await node.put("a", "one", "{}");
  node.start();
  const jobId = await start(node, { continuous: true });
  await node.event("replication.copied");
  isDead = true;
  expect(await node.replicator.cancel(jobId, USER)).toBeDefined();
  expect(await node.replicator.find(jobId)).toBeUndefined();
  expect(await localsOf(far)).toEqual([]);
});

test("a job can be cancelled even if its node is dead", async () => {
  const node = await openNode({ runtimeOver: hurried(6000) });
  nodes.push(node);
  const jobId = await start(node, { continuous: true });
  await node.kv.transact((tx) =>
    node.jobs.accept(tx, REPLICATION_JOB_TYPE, {
      noSchedule: false,
      dueBySec: Number.MAX_SAFE_INTEGER,
      countMax: 1,
    }),
  );
  expect(await node.replicator.cancel(jobId, USER)).toMatch(/\+continuous$/);
  expect(await node.replicator.find(jobId)).toBeUndefined();
});

test("source and target commit their data before the run writes the first checkpoint", async () => {
  const { far, node } = await open([]);
  node.start();
  await far.ask("PUT /source");
  await far.ask("PUT /source/one", { body: {} });
  const jobId = await start(node, { source: `${FAR_URL}/source` });
  await node.replicator.ended(jobId, FOREVER);
  const order = far.asked
    .map((request) => request.replace(/_local\/.*/, "_local"))
    .filter((request) => /_bulk_docs|_ensure_full_commit|PUT/.test(request));
  expect(order.slice(1, 3).toSorted()).toEqual([
    "POST /b/_ensure_full_commit",
    "POST /source/_ensure_full_commit",
  ]);
  expect([order[0], ...order.slice(3)]).toEqual([
    "POST /b/_bulk_docs",
    "PUT /source/_local",
    "PUT /b/_local",
  ]);
});

test.each([408, 500, 503])(
  "no checkpoint is written if the target answers a commit with %i",
  async (status) => {
    const { far, node } = await open(["one"], async ({ url }, pass) => {
      const answer = await pass();
      return url.endsWith("/_ensure_full_commit") ? { ...answer, status } : answer;
    });
    node.start();
    const outcome = await node.replicator.ended(
      await start(node, { retries_per_request: 0 }),
      FOREVER,
    );
    expect(outcome).toMatchObject({
      kind: "failed",
      failure: {
        error: "checkpoint_commit_failure",
        reason: expect.stringMatching(/^Failure on target commit: /),
      },
    });
    expect(await localsOf(far)).toEqual([]);
  },
);

test.each([404, 405, 501])(
  "a target that answers a commit with %i is assumed to store data durably without a commit",
  async (status) => {
    const { far, node } = await open(["one"], async ({ url }, pass) => {
      const answer = await pass();
      return url.endsWith("/_ensure_full_commit") ? { ...answer, status } : answer;
    });
    node.start();
    const outcome = await node.replicator.ended(
      await start(node, { retries_per_request: 0 }),
      FOREVER,
    );
    expect(outcome.kind).toBe("completed");
    expect(await localsOf(far)).toHaveLength(1);
  },
);

describe("a checkpoint conflict", () => {
  /** The response of a server that reports a conflict of local documents. */
  const conflict: Awaited<ReturnType<Fetch>> = {
    status: 409,
    headers: new Map(),
    body: (async function* () {
      yield Buffer.from('{"error":"conflict","reason":"Document update conflict."}');
    })(),
    discard: () => {},
  };

  test("ends the run if another run has written the checkpoint", async () => {
    const { far, node } = await open(["one"], async (request, pass) => {
      if (!isCheckpoint(request)) return pass();
      const { pathname } = new URL(request.url);
      await far.ask(`PUT ${pathname}`, { body: { session_id: "another" } });
      return conflict;
    });
    node.start();
    const outcome = await node.replicator.ended(await start(node), FOREVER);
    expect(outcome).toEqual({
      kind: "failed",
      failure: {
        error: "checkpoint_commit_failure",
        reason: "Error updating the target checkpoint document: conflict",
      },
    });
  });

  test("is ignored if the run's own write succeeded and only the response to it was lost", async () => {
    const { far, node } = await open(["one"], async (request, pass) => {
      const answer = await pass();
      return isCheckpoint(request) ? conflict : answer;
    });
    node.start();
    const outcome = await node.replicator.ended(await start(node), FOREVER);
    expect(outcome.kind).toBe("completed");
    expect(await localsOf(far)).toHaveLength(1);
  });
});

/** A failure list that stores its entries only when the test allows it. */
class SlowFailureLog extends MemoryRunFailures {
  readonly asked = deferred();
  readonly stored = deferred();

  override async record(...changes: Parameters<MemoryRunFailures["record"]>): Promise<void> {
    this.asked.resolve();
    await this.stored.promise;
    await super.record(...changes);
  }
}

describe("a batch with documents that did not arrive", () => {
  /** Prepares a run from `a` to `b`. The run skips the only document, whose id is too long. */
  async function openRun() {
    const { node } = await open(["too-long"]);
    await node.createDatabase("b");
    const { runtime, endpoints } = node;
    const replication = parseReplication({ source: "a", target: "b" });
    const failures = new SlowFailureLog();
    const run = new ReplicationRun({
      runtime,
      source: endpoints.open(replication.source, replication.options, { userName: null }),
      target: endpoints.open(replication.target, replication.options, { userName: null }),
      replication,
      ids: { id: "x", baseId: "x", olderBaseIds: [] },
      mayWrite: async () => {},
      failures,
      secrets: new SecretsInUse(),
      ownCheckpoint: NO_OWN_CHECKPOINT,
      copyLimits: { ...REPLICATOR_CONFIG_DEFAULT.copyLimits, documentIdBytesMax: 3 },
    });
    const readCheckpoint = () =>
      node.kv.read(async (tx) => (await node.databases.open(tx, "b")).local.read(tx, "_local/x"));
    return { run, failures, readCheckpoint };
  }

  test("counts as finished once the failure list contains these documents", async () => {
    const { run, failures, readCheckpoint } = await openRun();
    const running = run.run(FOREVER);
    await failures.asked.promise;
    failures.stored.resolve();
    expect((await running).kind).toBe("completed");
    expect(failures.failures).toMatchObject([{ id: "too-long", error: "document_id_too_long" }]);
    expect(await readCheckpoint()).toBeDefined();
    expect(run.progress.throughSequence).not.toBe(0);
  });

  test("does not count as finished before the failure list contains these documents, and no checkpoint passes this batch", async () => {
    const { run, failures, readCheckpoint } = await openRun();
    const stop = new AbortController();
    const running = run.run(stop.signal);
    await failures.asked.promise;
    stop.abort(new StopRequest());
    failures.stored.reject(stop.signal.reason);
    expect(await running).toEqual({ kind: "stopped" });
    expect(run.progress.throughSequence).toBe(0);
    expect(await readCheckpoint()).toBeUndefined();
  });
});

test("a database that is re-created while a checkpoint is being written does not receive the checkpoint", async () => {
  const node: { current?: Node } = {};
  const { far, node: opened } = await open([], async (request, pass) => {
    const { kv, databases } = node.current as Node;
    const answer = await pass();
    // This is the last response before both databases receive the checkpoint.
    if (request.url.endsWith("/_ensure_full_commit")) {
      await kv.transact((tx) => databases.remove(tx, "a"));
      await kv.transact((tx) => databases.create(tx, "a"));
    }
    return answer;
  });
  node.current = opened;
  await far.ask("PUT /b/one", { body: "{}" });
  opened.start();
  const members = { source: `${FAR_URL}/b`, target: "a", checkpoint_interval: 3_600_000 };
  await opened.replicator.start(parseReplication(members), USER);
  await opened.event("replication.failed", ({ error }) => error === "checkpoint_commit_failure");
  const { entries } = await opened.kv.read(async (tx) => {
    const database = await opened.databases.open(tx, "a");
    return database.local.page(tx, {});
  });
  expect(entries).toEqual([]);
});
