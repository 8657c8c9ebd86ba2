/**
 * Cancelling a job (RFC 007). A cancel waits until the job has stopped: nothing is written after
 * its response, and the next run of the replication begins only when the cancelled run has ended.
 * The tests run in virtual time on a node with many jobs. The target executes each received request
 * even if the client has disconnected.
 */
import { setMaxListeners } from "node:events";
import { afterEach, expect, test, vi } from "vitest";
import { Utf8Text } from "../../../src/base/index.ts";
import type { FetchRequest } from "../../../src/http-client/index.ts";
import { openWholeApi } from "../../server/whole-api.fixture.ts";
import { World } from "../../simulation/kernel/world.ts";
import { responseOf } from "../../simulation/network/simulated-network.ts";
import { SERVER_URL, SimulatedServer } from "../../simulation/network/simulated-server.ts";
import { composeNode } from "../../support/compose-node.ts";
import { ADMIN } from "../../support/open-node.ts";
import { openVirtualNode } from "../../support/virtual-node.ts";

/**
 * Number of jobs besides the one under test. With this many jobs on a node, the statistics of each
 * job are stored every five seconds.
 */
const OTHERS_COUNT = 500;
const DOCUMENT_COUNT = 400;
const WRITE_MS = 40;
/** Duration of a slow write, which is slightly shorter than the request timeout. */
const SLOW_WRITE_MS = 29_000;
const SOURCE = `${SERVER_URL}/a`;
const TARGET = `${SERVER_URL}/b`;
const BODY = { source: SOURCE, target: TARGET, worker_batch_size: 1, worker_processes: 1 };
const OPEN: { stop(): Promise<void> }[] = [];

afterEach(async () => {
  for (const node of OPEN.splice(0)) await node.stop();
});

function isWrite({ method, url }: FetchRequest): boolean {
  return method === "PUT" || url.endsWith("/_bulk_docs");
}

/**
 * Opens a node whose other jobs wait for a server that never responds. `writes` contains the
 * target's writes with their start and end times.
 */
async function openBusyNode(othersCount = OTHERS_COUNT, writeMs = WRITE_MS) {
  const world = new World("cancelled-runs");
  const { kv, databases, ...parts } = composeNode(world.openNode());
  const server = new SimulatedServer({ kv, databases, ...parts });
  const writes: { readonly beganMs: number; endedMs: number }[] = [];
  const write = async (request: FetchRequest) => {
    const entry = { beganMs: world.time.nowMs, endedMs: Number.POSITIVE_INFINITY };
    writes.push(entry);
    await world.time.sleep(writeMs);
    const answer = await server.serve(request);
    entry.endedMs = world.time.nowMs;
    return responseOf(answer);
  };
  const node = openVirtualNode({
    world,
    config: { jobsMax: 2 * OTHERS_COUNT },
    fetch: async (request) => {
      const { signal, url } = request;
      // All requests that a run sends to this server add listeners to the run's signal.
      setMaxListeners(0, signal);
      const gone = new Promise<never>((_, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason));
      });
      gone.catch(() => {});
      if (!url.startsWith(SERVER_URL)) return gone;
      await world.time.sleep(1, signal);
      return isWrite(request)
        ? Promise.race([write(request), gone])
        : responseOf(await server.serve(request));
    },
  });
  const edit = { mode: "interactive", parent: undefined, deleted: false, attachments: [] } as const;
  await world.until(
    kv.transact(async (tx) => {
      await databases.create(tx, "b");
      const database = await databases.create(tx, "a");
      for (let at = 0; at < DOCUMENT_COUNT; at++) {
        await database.write(tx, { ...edit, id: `doc-${at}`, body: Utf8Text.of("{}") }, ADMIN);
      }
    }),
  );
  await node.start();
  OPEN.push(node);
  const user = { name: "joe", roles: ["_admin"], isAdmin: true };
  const opening = openWholeApi({ node, authenticate: async () => user });
  const api = await world.until(opening);
  const ask = async (request: string, body?: object) => {
    const answer = await world.until(api.ask(request, body === undefined ? {} : { body }));
    expect(answer.status, `${request}: ${answer.text}`).toBeLessThan(300);
    return answer.json;
  };
  await ask("PUT /_replicator");
  await ask("PUT /others%2F_replicator");
  const docs = Array.from({ length: othersCount }, (_, at) => ({
    _id: `other-${at}`,
    source: `http://silent.test/${at}`,
    target: "c",
  }));
  await ask("POST /others%2F_replicator/_bulk_docs", { docs });
  await world.time.run(world.time.nowMs + 2000);
  const seesWrites = async (count: number): Promise<void> => {
    const ready = () => writes.length >= count;
    expect(await world.time.run(world.time.nowMs + 60_000, ready)).toBe(true);
  };
  /** Checks that no write is in progress, and that no further write follows. */
  const rests = async (): Promise<void> => {
    const { length } = writes;
    const nowMs = world.time.nowMs;
    expect(writes.filter(({ endedMs }) => endedMs > nowMs)).toEqual([]);
    await world.time.run(nowMs + 20_000);
    expect(writes).toHaveLength(length);
    expect(length).toBeLessThan(DOCUMENT_COUNT);
  };
  return { ...node, api, ask, writes, seesWrites, rests };
}

type Ask = Awaited<ReturnType<typeof openBusyNode>>["ask"];

/** Every way to end a job. Each function creates a job, and returns a function that ends it. */
const WAYS: readonly [string, (ask: Ask) => Promise<() => Promise<unknown>>][] = [
  [
    "a job's document is deleted",
    async (ask) => {
      const { rev } = await ask("PUT /_replicator/job", BODY);
      return () => ask(`DELETE /_replicator/job?rev=${rev}`);
    },
  ],
  [
    "a job's document is deleted in bulk",
    async (ask) => {
      const { rev } = await ask("PUT /_replicator/job", { ...BODY, continuous: true });
      const docs = [{ _id: "job", _rev: rev, _deleted: true }];
      return () => ask("POST /_replicator/_bulk_docs", { docs });
    },
  ],
  [
    "a job's document is changed to request another replication",
    async (ask) => {
      const { rev } = await ask("PUT /_replicator/job", BODY);
      return () =>
        ask("PUT /_replicator/job", { ...BODY, source: "http://silent.test/a", _rev: rev });
    },
  ],
  [
    "the database of a job's document is deleted",
    async (ask) => {
      await ask("PUT /some%2F_replicator");
      await ask("PUT /some%2F_replicator/job", BODY);
      return () => ask("DELETE /some%2F_replicator");
    },
  ],
  [
    "an operator cancels a job",
    async (ask) => {
      await ask("PUT /_replicator/job", BODY);
      const { docs } = await ask("GET /_scheduler/docs/_replicator");
      return () => ask(`POST /_tandem/jobs/${encodeURIComponent(docs[0].id)}/_cancel`);
    },
  ],
  [
    "an operator cancels all matching jobs",
    async (ask) => {
      await ask("PUT /_replicator/job", BODY);
      return () => ask("POST /_tandem/jobs/_cancel?database=_replicator");
    },
  ],
  [
    "a job's rule is deleted",
    async (ask) => {
      await ask("PUT /_tandem/rules/copies", {
        source: SERVER_URL,
        databases: ["a"],
        target: `${SERVER_URL}/{db}-copy`,
        options: { worker_batch_size: 1, worker_processes: 1 },
      });
      return () => ask("DELETE /_tandem/rules/copies");
    },
  ],
];

test.each(WAYS)("if %s, nothing is written after the response", async (_, make) => {
  const { ask, seesWrites, rests } = await openBusyNode();
  const end = await make(ask);
  await seesWrites(20);
  await end();
  await rests();
});

test.each(WAYS)("if %s, the response waits for a slow write", async (_, make) => {
  const { ask, seesWrites, rests } = await openBusyNode(0, SLOW_WRITE_MS);
  const end = await make(ask);
  await seesWrites(2);
  await end();
  await rests();
});

test("a node that shuts down waits at most 15 seconds for a slow write and the last checkpoint", async () => {
  const { ask, seesWrites, stop, world } = await openBusyNode(0, SLOW_WRITE_MS);
  await ask("PUT /_replicator/job", BODY);
  await seesWrites(2);
  const beganMs = world.time.nowMs;
  await stop();
  expect(world.time.nowMs - beganMs).toBeLessThanOrEqual(15_000);
});

test.each([false, true])(
  "a cancel by _replicate waits for a slow write before it responds (continuous: %s)",
  async (continuous) => {
    const { ask, api, seesWrites, rests } = await openBusyNode(0, SLOW_WRITE_MS);
    const body = { ...BODY, continuous };
    const started = api.ask("POST /_replicate", { body });
    await seesWrites(2);
    await ask("POST /_replicate", { ...body, cancel: true });
    await rests();
    await started;
  },
);

test.each([false, true])(
  "nothing is written after the response to a cancel by _replicate (continuous: %s)",
  async (continuous) => {
    const { ask, api, world, seesWrites, rests } = await openBusyNode();
    const body = { ...BODY, continuous };
    const started = api.ask("POST /_replicate", { body });
    await seesWrites(20);
    await ask("POST /_replicate", { ...body, cancel: true });
    await rests();
    expect((await world.until(started)).status).toBe(continuous ? 202 : 404);
  },
);

test("a document that is deleted and re-created never has two runs at a time", async () => {
  const { ask, writes, seesWrites, world } = await openBusyNode();
  let { rev } = await ask("PUT /_replicator/job", BODY);
  const ends: number[] = [];
  for (let count = 1; count <= 3; count++) {
    await seesWrites(writes.length + 10);
    ({ rev } = await ask(`DELETE /_replicator/job?rev=${rev}`));
    ends.push(world.time.nowMs);
    ({ rev } = await ask("PUT /_replicator/job", BODY));
  }
  await seesWrites(writes.length + 10);
  for (const endMs of ends) {
    const straddling = writes.filter(({ beganMs, endedMs }) => beganMs < endMs && endedMs > endMs);
    expect(straddling).toEqual([]);
  }
});

test("another document's job for the same replication starts its run only after the cancelled run has ended", async () => {
  const { api, ask, document, replicator, world, names, seesWrites } = await openBusyNode();
  await ask("PUT /_replicator/job", BODY);
  await seesWrites(20);
  const started = () => names.filter((name) => name === "replication.started").length;
  const before = started();
  const { jobId } = await document("job", () => true);
  // Waits until the job is removed, but not until its run has halted.
  void replicator.commands.cancel(jobId, { userName: "joe" });
  const isCancelled = () => names.includes("replication.cancelled");
  expect(await world.time.run(world.time.nowMs + 60_000, isCancelled)).toBe(true);
  void api.ask("PUT /_replicator/twin", { body: BODY });
  await world.time.run(world.time.nowMs + 60_000, () => started() > before);
  const last = names
    .filter((name) => /replication.(accepted|halted|started)$/.test(name))
    .slice(-3);
  expect(last).toEqual(["replication.accepted", "replication.halted", "replication.started"]);
});

test("a cancel waits for a run on a dead node until the node's lease expires, and later calls do not", async () => {
  const { ask, document, simulated, world, seesWrites } = await openBusyNode();
  await ask("PUT /_replicator/job", BODY);
  await seesWrites(20);
  const { jobId } = await document("job", () => true);
  const frontend = openVirtualNode({ world });
  await frontend.start({ runsJobs: false });
  OPEN.length = 0;
  OPEN.push(frontend);
  simulated.crash();
  const { replicator, halted } = frontend;
  const { signal } = new AbortController();
  const settled = (call: () => Promise<unknown>) => halted.settledAfter(call, signal);
  let noteCancelled = () => {};
  const cancelled = new Promise<void>((resolve) => (noteCancelled = resolve));
  const cancelling = settled(async () => {
    await replicator.commands.cancel(jobId, { userName: "joe" });
    noteCancelled();
  });
  await world.until(cancelled);
  const cancelledMs = world.time.nowMs;
  await world.until(settled(async () => {}));
  expect(world.time.nowMs - cancelledMs).toBeLessThan(1000);
  await world.until(cancelling);
  expect(world.time.nowMs - cancelledMs).toBeGreaterThan(3000);
  expect(world.time.nowMs - cancelledMs).toBeLessThan(20_000);
});

test("cancelling a running job takes at most six additional transactions", async () => {
  const { ask, kv, document, replicator, world, seesWrites } = await openBusyNode(0);
  await ask("PUT /_replicator/job", BODY);
  await seesWrites(20);
  const { jobId } = await document("job", () => true);
  const transact = vi.spyOn(kv, "transact");
  await world.until(replicator.commands.cancel(jobId, { userName: "joe" }));
  await world.time.run(world.time.nowMs + 1000);
  expect(transact.mock.calls.length).toBeLessThanOrEqual(1 + 6);
});
