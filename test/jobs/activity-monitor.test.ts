/** Requeueing of jobs by the activity monitor, in virtual time. */
import { beforeEach, expect, test } from "vitest";
import { ActivityMonitor, type HeldJob, JobHaltedError, Jobs } from "../../src/jobs/index.ts";
import { type KeyValueStore, Subspace, type Transaction } from "../../src/kv/index.ts";
import type { SimulatedNode } from "../simulation/kernel/simulated-node.ts";
import { World } from "../simulation/kernel/world.ts";

const TYPE = "test";
const TIMEOUT_SEC = 60;
/** The monitor checks once per timeout plus a jitter of up to ten seconds. */
const CHECK_SEC_MAX = TIMEOUT_SEC + 10;

let world: World;
let node: SimulatedNode;
let kv: KeyValueStore;
let jobs: Jobs;
let stopping: AbortController;

beforeEach(async () => {
  world = new World("activity");
  node = world.openNode();
  kv = node.kv;
  jobs = new Jobs(node.runtime, Subspace.fromTuple(["jobs"]));
  stopping = new AbortController();
  await setTimeoutSec(TIMEOUT_SEC);
  const monitor = new ActivityMonitor(node.runtime, kv, jobs, TYPE);
  void monitor.run(stopping.signal);
  return () => stopping.abort(new Error("The test is over"));
});

const transact = <T>(body: (tx: Transaction) => Promise<T>): Promise<T> =>
  world.until(kv.transact(body));
const setTimeoutSec = (timeoutSec: number) =>
  transact((tx) => jobs.setTypeTimeout(tx, TYPE, timeoutSec));
const stateOf = async (id: string) =>
  (await kv.read((tx) => jobs.get(tx, { type: TYPE, id })))?.state;
const pass = (durationSec: number) => world.time.run(world.time.nowMs + durationSec * 1000);

async function hold(id: string): Promise<HeldJob> {
  await transact((tx) => jobs.add(tx, { type: TYPE, id }, {}));
  const acceptance = await transact((tx) => jobs.accept(tx, TYPE, { dueBySec: 0, countMax: 1 }));
  if (acceptance.kind === "none-due") throw new Error("No job is due");
  return acceptance.held[0] as HeldJob;
}

test("a job that sends heartbeats within the timeout is never requeued, and a silent job is requeued", async () => {
  const silent = await hold("silent");
  const living = await hold("living");
  for (let count = 0; count < 40; count++) {
    await pass(TIMEOUT_SEC - 1);
    await transact((tx) => jobs.update(tx, living));
  }
  expect(await stateOf("living")).toBe("running");
  expect(await stateOf("silent")).toBe("pending");
  await expect(transact((tx) => jobs.update(tx, silent))).rejects.toThrow(JobHaltedError);
});

test("a silent job loses its lock after at least one timeout and at most two check intervals", async () => {
  for (let offsetSec = 0; offsetSec < TIMEOUT_SEC; offsetSec += 7) {
    const id = `after-${offsetSec}`;
    await pass(offsetSec);
    await hold(id);
    await pass(TIMEOUT_SEC);
    expect(await stateOf(id)).toBe("running");
    await pass(2 * CHECK_SEC_MAX - TIMEOUT_SEC);
    expect(await stateOf(id)).toBe("pending");
    await transact((tx) => jobs.remove(tx, { type: TYPE, id }));
  }
});

test("an increased timeout applies to jobs that the monitor has already seen", async () => {
  const living = await hold("living");
  await pass(CHECK_SEC_MAX);
  await setTimeoutSec(10 * TIMEOUT_SEC);
  await pass(CHECK_SEC_MAX);
  for (let count = 0; count < 5; count++) {
    expect(await stateOf("living")).toBe("running");
    await transact((tx) => jobs.update(tx, living));
    await pass(10 * TIMEOUT_SEC - 1);
  }
});
