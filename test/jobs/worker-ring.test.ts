/** The neighbours that a worker watches. The test advances the clock. */
import { beforeEach, expect, test } from "vitest";
import { createSystemRuntime } from "../../src/host/index.ts";
import { Jobs, type Worker, type WorkerId } from "../../src/jobs/index.ts";
import { WorkerRing } from "../../src/jobs/worker-ring.ts";
import { KeyValueStore, MemoryEngine, Subspace } from "../../src/kv/index.ts";
import { countingEngine } from "../support/kv/counting-engine.ts";

const LEASE_MS = 5000;
const DESCRIPTION = { node: "n", processId: "1", types: ["test"], leaseMs: LEASE_MS };

let nowMs: number;
let memory: MemoryEngine;
let kv: KeyValueStore;
let jobs: Jobs;
let ring: WorkerRing;
/** The workers that follow the first one in the ring, nearest first. */
let others: WorkerId[];

const system = createSystemRuntime();
const runtime = { ...system, clock: { ...system.clock, monotonicMs: () => nowMs } };

beforeEach(async () => {
  nowMs = 1_000_000;
  memory = new MemoryEngine({ runtime: system });
  kv = new KeyValueStore({ runtime: system, engine: memory });
  jobs = new Jobs(runtime, Subspace.fromTuple(["jobs"]));
  for (let count = 0; count < 4; count++) {
    await kv.transact(async (tx) => jobs.workers.register(tx, DESCRIPTION));
  }
  const [self, ...rest] = await kv.read((tx) => jobs.workers.members(tx));
  ring = new WorkerRing({ runtime, kv, jobs }, self as Worker);
  others = rest.map(({ id }) => id);
  return async () => {
    ring.close();
    await kv.close();
  };
});

/** Advances time by this number of lease durations, and runs one check of the worker. */
async function check(passedLeases: number): Promise<void> {
  nowMs += passedLeases * LEASE_MS;
  await ring.look();
}

async function living(): Promise<WorkerId[]> {
  const members = await kv.read((tx) => jobs.workers.members(tx));
  return others.filter((id) => members.some((member) => member.id === id));
}

test("a worker whose next neighbour is alive ignores silent workers after that neighbour", async () => {
  const [nearest = ""] = others;
  for (let count = 0; count < 12; count++) {
    await kv.transact((tx) => jobs.workers.renew(tx, nearest));
    await check(0.2);
  }
  expect(await living()).toEqual(others);
});

test("each check reads one lease whatever the number of workers, and one check per lease duration also reads the list of workers", async () => {
  for (let count = 0; count < 50; count++) {
    await kv.transact(async (tx) => jobs.workers.register(tx, DESCRIPTION));
  }
  const members = await kv.read((tx) => jobs.workers.members(tx));
  const [self, nearest] = members as [Worker, Worker];
  const { engine, counts } = countingEngine(memory);
  const counted = new KeyValueStore({ runtime: system, engine });
  ring = new WorkerRing({ runtime, kv: counted, jobs }, self);
  const readCounts: number[] = [];
  for (let count = 0; count < 10; count++) {
    await kv.transact((tx) => jobs.workers.renew(tx, nearest.id));
    const before = counts.readCount;
    await check(0.2);
    readCounts.push(counts.readCount - before);
  }
  // The first check reads all leases, because the worker knows none of them yet.
  expect(readCounts[0]).toBeLessThan(3 * members.length);
  const later = readCounts.slice(1).toSorted((left, right) => left - right);
  expect(later.slice(0, 7)).toEqual([1, 1, 1, 1, 1, 1, 1]);
  expect(later.at(-1)).toBeLessThan(members.length + 10);
});

test("a worker whose neighbour is silent also watches the workers after it", async () => {
  for (let count = 0; count < 5; count++) await check(0.2);
  expect(await living()).toEqual(others);
  await check(0.2);
  expect(await living()).toEqual(others.slice(1));
  // Each worker in the ring is watched once the worker before it has missed two renewals, even if
  // that worker has not been expelled yet.
  for (const left of [others.slice(2), []]) {
    for (let count = 0; count < 2; count++) await check(0.2);
    expect(await living()).toEqual(left);
  }
});

test("the last worker's neighbour is the first worker", async () => {
  const last = (await kv.read((tx) => jobs.workers.members(tx))).at(-1) as Worker;
  ring = new WorkerRing({ runtime, kv, jobs }, last);
  const [first, second] = await kv.read((tx) => jobs.workers.members(tx));
  for (let count = 0; count < 6; count++) {
    await kv.transact((tx) => jobs.workers.renew(tx, second?.id ?? ""));
    await check(0.2);
  }
  const left = (await kv.read((tx) => jobs.workers.members(tx))).map(({ id }) => id);
  expect(left).not.toContain(first?.id);
  expect(left).toContain(second?.id);
});
