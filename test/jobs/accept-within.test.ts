/** Accepting with a timeout, under virtual time. */
import { expect, test } from "vitest";
import { acceptWithin, Jobs } from "../../src/jobs/index.ts";
import { Subspace } from "../../src/kv/index.ts";
import { World } from "../simulation/kernel/world.ts";

const TYPE = "test";
const FOREVER = new AbortController().signal;

async function openQueue() {
  const world = new World("accept");
  const { kv, runtime } = world.openNode();
  const jobs = new Jobs(runtime, Subspace.fromTuple(["jobs"]));
  await world.until(kv.transact((tx) => jobs.setTypeTimeout(tx, TYPE, 60)));
  const parts = { clock: runtime.clock, kv, jobs };
  const nowSec = () => Math.floor(runtime.clock.nowMs() / 1000);
  return {
    world,
    nowSec,
    accept: (timeoutMs?: number, signal = FOREVER) =>
      acceptWithin(parts, TYPE, { countMax: 10, timeoutMs, signal }),
    add: (id: string, scheduledAtSec = 0) =>
      world.until(kv.transact((tx) => jobs.add(tx, { type: TYPE, id }, {}, { scheduledAtSec }))),
  };
}

test("what is due is accepted at once, and with no patience nothing is waited for", async () => {
  const { world, add, accept, nowSec } = await openQueue();
  await add("due");
  await add("later", nowSec() + 100);
  const accepted = await world.until(accept(0));
  expect(accepted?.held.map(({ id }) => id)).toEqual(["due"]);
  const before = world.time.nowMs;
  expect(await world.until(accept(0))).toBeUndefined();
  expect(world.time.nowMs).toBe(before);
});

test("a job that is added meanwhile ends the waiting", async () => {
  const { world, add, accept } = await openQueue();
  const waiting = accept(10_000);
  await world.time.run(world.time.nowMs + 3000);
  const addedAtMs = world.time.nowMs;
  await add("job");
  expect((await world.until(waiting))?.held.map(({ id }) => id)).toEqual(["job"]);
  expect(world.time.nowMs - addedAtMs).toBeLessThan(100);
});

test("a job that comes due by its time is accepted then", async () => {
  const { world, add, accept, nowSec } = await openQueue();
  await add("later", nowSec() + 5);
  const startedAtMs = world.time.nowMs;
  expect((await world.until(accept(10_000)))?.held.map(({ id }) => id)).toEqual(["later"]);
  expect(world.time.nowMs - startedAtMs).toBeGreaterThanOrEqual(4900);
  expect(world.time.nowMs - startedAtMs).toBeLessThan(5100);
});

test("the waiting ends with its time, and with the signal", async () => {
  const { world, accept } = await openQueue();
  const startedAtMs = world.time.nowMs;
  expect(await world.until(accept(7000))).toBeUndefined();
  expect(world.time.nowMs - startedAtMs).toBe(7000);
  const over = new AbortController();
  const waiting = accept(undefined, over.signal);
  await world.time.run(world.time.nowMs + 100_000);
  over.abort(new Error("enough"));
  expect(await world.until(waiting)).toBeUndefined();
});
