/** The stored data of jobs: how much each heartbeat writes, and jobs stored by other versions. */
import { afterEach, expect, test } from "vitest";
import type { Runtime } from "../../../src/base/index.ts";
import type { HeldJob, Job, JobData } from "../../../src/jobs/index.ts";
import { KeyValueStore, MemoryEngine, MemoryStorage } from "../../../src/kv/index.ts";
import { parseReplication, REPLICATION_JOB_TYPE } from "../../../src/replicator/index.ts";
import { HeldReplication } from "../../../src/replicator/run/held-replication.ts";
import { SeededRandom } from "../../simulation/kernel/seeded-random.ts";
import { composeNode } from "../../support/compose-node.ts";
import { byteCountingEngine } from "../../support/kv/counting-engine.ts";
import { type Node, openNode } from "../../support/open-node.ts";

const USER = { userName: "joe", isAdmin: true };
const nodes: Node[] = [];

afterEach(async () => {
  for (const node of nodes.splice(0)) await node.stop();
});

async function open(
  storage?: MemoryStorage,
  runtimeOver: (system: Runtime) => Runtime = (system) => system,
): Promise<Node> {
  const node = await openNode({ runtimeOver, ...(storage === undefined ? {} : { storage }) });
  nodes.push(node);
  return node;
}

/**
 * Returns a runtime with a constant time and constant random numbers, so that stored times and ids
 * always have the same length.
 */
function alwaysTheSame(system: Runtime): Runtime {
  const clock = { ...system.clock, nowMs: () => 1_750_000_000_123 };
  return { ...system, clock, random: new SeededRandom("stored jobs") };
}

/**
 * Returns how many bytes a job with this many `doc_ids` writes when it starts, and with each
 * heartbeat.
 */
async function bytesOf(idCount: number): Promise<{ beginning: number; heartbeatBytes: number }> {
  const storage = new MemoryStorage();
  const node = await open(storage, alwaysTheSame);
  const { runtime } = node;
  const { engine, written } = byteCountingEngine(new MemoryEngine({ runtime, storage }));
  const kv = new KeyValueStore({ runtime, engine });
  const parts = composeNode({ runtime, kv });
  const doc_ids = Array.from({ length: idCount }, (_, number) => `document-${10_000 + number}`);
  const replication = parseReplication({ source: "a", target: "b", continuous: true, doc_ids });
  await node.replicator.start(replication, USER);
  const acceptance = await kv.transact((tx) =>
    node.jobs.accept(tx, REPLICATION_JOB_TYPE, { dueBySec: 2 ** 36, countMax: 1 }),
  );
  if (acceptance.kind === "none-due") throw new Error("No job is due");
  const job = new HeldReplication(parts, acceptance.held[0] as HeldJob, acceptance.jobs[0] as Job);
  const count = async (write: () => Promise<unknown>): Promise<number> => {
    const before = written.byteCount;
    await write();
    return written.byteCount - before;
  };
  const beginning = await count(() => job.begin({ id: "0".repeat(32) }));
  return { beginning, heartbeatBytes: await count(() => job.update()) };
}

test("a heartbeat writes no more bytes for a job with 5,000 document ids than for a job with one", async () => {
  const one = await bytesOf(1);
  expect(one.heartbeatBytes).toBeGreaterThan(0);
  expect(one.heartbeatBytes).toBeLessThan(1500);
  expect(await bytesOf(5000)).toEqual(one);
});

/** Rewrites a job in the format of versions that kept the request in the job's data. */
async function storeFlat(node: Node, id: string, change: object = {}): Promise<void> {
  const name = { type: REPLICATION_JOB_TYPE, id };
  await node.kv.transact(async (tx) => {
    const { data, request, scheduledAtSec, group } = (await node.jobs.get(tx, name)) as Job;
    const { format: _, ...flat }: JobData = { ...request, ...data, ...change };
    await node.jobs.remove(tx, name);
    await node.jobs.add(tx, name, flat, { scheduledAtSec, group });
  });
}

const stored = (node: Node, id: string) =>
  node.kv.read((tx) => node.jobs.get(tx, { type: REPLICATION_JOB_TYPE, id }));

async function openWithJob(members: object): Promise<{ node: Node; id: string }> {
  const node = await open();
  for (const name of ["a", "b"]) await node.createDatabase(name);
  await node.put("a", "x", "{}");
  const body = { source: "a", target: "b", ...members };
  return { node, id: await node.replicator.start(parseReplication(body), USER) };
}

test("a job stored by an older version runs, and its request is stored separately from then on", async () => {
  const { node, id } = await openWithJob({});
  await storeFlat(node, id);
  expect((await stored(node, id))?.request).toBeUndefined();
  node.start();
  expect(await node.event("replication.ended")).toMatchObject({ state: "completed" });
  const job = await stored(node, id);
  expect(job?.request).toMatchObject({ format: 2, userName: "joe", replication: { source: {} } });
  expect(Object.keys(job?.data ?? {})).not.toContain("replication");
  const entry = await node.replicator.find(id);
  expect(entry?.data).toMatchObject({ userName: "joe", statistics: { docsWritten: 1 } });
});

test("a job stored by an older version keeps its request when an operator resets it", async () => {
  const { node, id } = await openWithJob({ continuous: true });
  const failure = { error: "econnrefused", reason: "connection refused" };
  await storeFlat(node, id, { state: "crashing", failure, errorCount: 3 });
  const before = await node.replicator.find(id);
  expect(before).toMatchObject({ state: "crashing", data: { failure, errorCount: 3 } });
  expect(await node.replicator.commands.startFrom(id, 0, { userName: "ops" })).toBe("done");
  const after = await node.replicator.find(id);
  expect(after).toMatchObject({ state: "pending", data: { failure: undefined, errorCount: 0 } });
  expect(after?.data.replication).toEqual(before?.data.replication);
  expect((await stored(node, id))?.request).toMatchObject({ format: 2 });
});

test("a job stored by a newer version is left for newer nodes, and does not prevent other jobs from running", async () => {
  const { node, id } = await openWithJob({ continuous: true });
  const name = { type: REPLICATION_JOB_TYPE, id };
  await node.kv.transact(async (tx) => {
    const job = await node.jobs.get(tx, name);
    await node.jobs.resubmit(tx, name, 0, { ...job?.data, format: 3 });
  });
  const newer = await stored(node, id);
  const shown = { jobId: id, state: "crashing", data: { failure: { error: "unknown_format" } } };
  expect(await node.replicator.find(id)).toMatchObject(shown);
  const listed: unknown[] = [];
  for await (const entry of node.replicator.lists.all({})) listed.push(entry);
  expect(listed).toMatchObject([shown]);
  node.start();
  expect(await node.event("replication.abandoned")).toEqual({
    jobId: id,
    error: "AssertionError: A replication job must have a supported format version",
  });
  await node.createDatabase("c");
  const other = parseReplication({ source: "a", target: "c" });
  await node.replicator.start(other, USER);
  expect(await node.event("replication.ended")).toMatchObject({ state: "completed" });
  expect((await stored(node, id))?.data).toEqual(newer?.data);
});
