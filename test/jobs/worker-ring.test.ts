/** Whom a worker watches, by a clock that the test moves. */
import { beforeEach, expect, test } from "vitest";
import { createSystemRuntime } from "../../src/host/index.ts";
import { Jobs, type Worker, type WorkerId } from "../../src/jobs/index.ts";
import { WorkerRing } from "../../src/jobs/worker-ring.ts";
import { KeyValueStore, MemoryEngine, Subspace } from "../../src/kv/index.ts";

const LEASE_MS = 5000;
const DESCRIPTION = { node: "n", processId: "1", types: ["test"], leaseMs: LEASE_MS };

let nowMs: number;
let kv: KeyValueStore;
let jobs: Jobs;
let ring: WorkerRing;
/** Those that the first one sees to its right, the nearest first. */
let others: WorkerId[];

const system = createSystemRuntime();
const runtime = { ...system, clock: { ...system.clock, monotonicMs: () => nowMs } };

beforeEach(async () => {
  nowMs = 1_000_000;
  kv = new KeyValueStore({ runtime: system, engine: new MemoryEngine({ runtime: system }) });
  jobs = new Jobs(runtime, Subspace.fromTuple(["jobs"]));
  for (let count = 0; count < 4; count++) {
    await kv.transact(async (tx) => jobs.workers.register(tx, DESCRIPTION));
  }
  const [self, ...rest] = await kv.read((tx) => jobs.workers.members(tx));
  ring = new WorkerRing({ runtime, kv, jobs }, self as Worker);
  others = rest.map(({ id }) => id);
  return () => kv.close();
});

/** Time passes, in parts of a lease, and the worker looks. */
async function look(passedLeases: number): Promise<void> {
  nowMs += passedLeases * LEASE_MS;
  (await ring.look()).changed.cancel();
}

async function living(): Promise<WorkerId[]> {
  const members = await kv.read((tx) => jobs.workers.members(tx));
  return others.filter((id) => members.some((member) => member.id === id));
}

test("while the neighbour to the right lives, who is silent behind it is that one's affair", async () => {
  const [nearest = ""] = others;
  for (let count = 0; count < 12; count++) {
    await kv.transact((tx) => jobs.workers.renew(tx, nearest));
    await look(0.2);
  }
  expect(await living()).toEqual(others);
});

test("behind a neighbour that is silent the next ones are watched, too", async () => {
  for (let count = 0; count < 5; count++) await look(0.2);
  expect(await living()).toEqual(others);
  await look(0.2);
  expect(await living()).toEqual(others.slice(1));
  // Each is watched from when the one before it had missed two renewals, and not only from when that was struck off.
  for (const left of [others.slice(2), []]) {
    for (let count = 0; count < 2; count++) await look(0.2);
    expect(await living()).toEqual(left);
  }
});

test("the neighbour of the last one in the row is the first", async () => {
  const last = (await kv.read((tx) => jobs.workers.members(tx))).at(-1) as Worker;
  ring = new WorkerRing({ runtime, kv, jobs }, last);
  const [first, second] = await kv.read((tx) => jobs.workers.members(tx));
  for (let count = 0; count < 6; count++) {
    await kv.transact((tx) => jobs.workers.renew(tx, second?.id ?? ""));
    await look(0.2);
  }
  const left = (await kv.read((tx) => jobs.workers.members(tx))).map(({ id }) => id);
  expect(left).not.toContain(first?.id);
  expect(left).toContain(second?.id);
});
