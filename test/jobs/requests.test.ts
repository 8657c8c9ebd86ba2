/** The request of a job. It is stored separately from the data that the job's worker rewrites. */
import { beforeEach, expect, test } from "vitest";
import { createSystemRuntime } from "../../src/host/index.ts";
import { type HeldJob, type Job, type JobData, Jobs } from "../../src/jobs/index.ts";
import { jobKeys } from "../../src/jobs/job-keys.ts";
import { MemoryEngine, Subspace, type Transaction } from "../../src/kv/index.ts";
import { PlainStore } from "../../src/library/kv-conformance/plain-store.ts";
import { countingEngine, type KeyCounts } from "../support/kv/counting-engine.ts";

const TYPE = "test";
const JOB = { type: TYPE, id: "j" };
const SUBSPACE = Subspace.fromTuple(["jobs"]);
const LARGE = { ids: Array.from({ length: 20_000 }, (_, number) => `document-${number}`) };
const runtime = createSystemRuntime();

let kv: PlainStore;
let jobs: Jobs;
let counts: KeyCounts;

beforeEach(async () => {
  const counting = countingEngine(new MemoryEngine({ runtime }));
  counts = counting.counts;
  kv = new PlainStore({ runtime, engine: counting.engine });
  jobs = new Jobs(runtime, SUBSPACE);
  await kv.transact((tx) => jobs.setTypeTimeout(tx, TYPE, 60));
  return () => kv.close();
});

const transact = <T>(body: (tx: Transaction) => Promise<T>): Promise<T> => kv.transact(body);
const get = () => kv.read((tx) => jobs.get(tx, JOB));
const add = (data: JobData, request?: JobData) =>
  transact((tx) => jobs.add(tx, JOB, data, request === undefined ? {} : { request }));

async function accept(): Promise<{ held: HeldJob; job: Job }> {
  const acceptance = await transact((tx) => jobs.accept(tx, TYPE, { dueBySec: 9, countMax: 1 }));
  if (acceptance.kind === "none-due") throw new Error("No job is due");
  return { held: acceptance.held[0] as HeldJob, job: acceptance.jobs[0] as Job };
}

/** Returns the number of keys read and written by `perform`. */
async function cost(perform: () => Promise<unknown>): Promise<KeyCounts> {
  const { readCount, writtenCount } = counts;
  await perform();
  return {
    readCount: counts.readCount - readCount,
    writtenCount: counts.writtenCount - writtenCount,
  };
}

/** Returns the number of rows in the store that contain requests. */
const requestRowCount = () =>
  kv.read(async (tx) => {
    const keys = jobKeys(SUBSPACE);
    const ranges = [keys.request.range(JOB), keys.nextRequest.range(JOB)];
    const pages = await Promise.all(ranges.map((range) => tx.getRangePage(range)));
    return pages.flatMap(({ entries }) => entries).length;
  });

test("every method returns the complete request if it is longer than the store's limit for a value", async () => {
  await add({ n: 1 }, LARGE);
  expect(await get()).toMatchObject({ data: { n: 1 }, request: LARGE });
  const page = await kv.read((tx) => jobs.list(tx, TYPE, { limit: 10 }));
  expect(page.entries[0]?.request).toEqual(LARGE);
  expect((await accept()).job).toMatchObject({ data: { n: 1 }, request: LARGE });
});

test("a job's request is kept without being rewritten when the job changes", async () => {
  await add({ n: 1 }, LARGE);
  const { held } = await accept();
  const update = () => transact((tx) => jobs.update(tx, held, { n: 2 }));
  // An update writes the job's record and data, and moves the job's row in the activity order.
  expect(await cost(update)).toMatchObject({ writtenCount: 4 });
  expect(await get()).toMatchObject({ state: "running", data: { n: 2 }, request: LARGE });
  await transact(async (tx) => {
    await jobs.resubmit(tx, held, 1, { n: 3 });
    await jobs.finish(tx, held, { n: 4 });
  });
  expect(await get()).toMatchObject({ state: "pending", data: { n: 3 }, request: LARGE });
  const again = await accept();
  await transact((tx) => jobs.finish(tx, again.held));
  expect(await get()).toMatchObject({ state: "finished", data: { n: 3 }, request: LARGE });
  await add({ n: 5 });
  expect(await get()).toMatchObject({ state: "pending", data: { n: 5 }, request: LARGE });
  const last = await accept();
  const until = await kv.read((tx) => jobs.lastActivity(tx, TYPE));
  if (until === undefined) throw new Error("Nothing is running");
  await transact((tx) => jobs.requeueSilent(tx, TYPE, until, 1));
  expect(last.job.request).toEqual(LARGE);
  expect(await get()).toMatchObject({ state: "pending", request: LARGE });
});

test("adding a job again with another request replaces the job's request", async () => {
  await add({ n: 1 }, LARGE);
  await add({ n: 1 }, { other: true });
  expect(await get()).toMatchObject({ data: { n: 1 }, request: { other: true } });
  expect(await requestRowCount()).toBe(1);
  const { writtenCount } = await cost(() => add({ n: 1 }, { other: true }));
  expect(writtenCount).toBe(0);
});

test("a request that is given to a running job takes effect with the next run", async () => {
  await add({ n: 1 }, { first: true });
  const { held } = await accept();
  await add({ n: 2 }, { second: true });
  expect(await get()).toMatchObject({ data: { n: 1 }, request: { first: true } });
  await transact((tx) => jobs.finish(tx, held));
  expect(await get()).toMatchObject({ data: { n: 2 }, request: { second: true } });
  expect(await requestRowCount()).toBe(1);
});

test.each([
  ["update", (held: HeldJob) => transact((tx) => jobs.update(tx, held, { n: 2 }, LARGE))],
  ["finish", (held: HeldJob) => transact((tx) => jobs.finish(tx, held, { n: 2 }, LARGE))],
  [
    "resubmit",
    (held: HeldJob) =>
      transact(async (tx) => {
        await jobs.resubmit(tx, held, 0, { n: 2 }, LARGE);
        await jobs.finish(tx, held);
      }),
  ],
])("%s stores a request for a job that has no request", async (_, write) => {
  await add({ n: 1 });
  const { held, job } = await accept();
  expect(job.request).toBeUndefined();
  await write(held);
  expect(await get()).toMatchObject({ data: { n: 2 }, request: LARGE });
});

test("a pending job that receives a request keeps its place in the queue", async () => {
  await add({ n: 1 });
  await add({ n: 1 }, { late: true });
  expect((await get())?.request).toEqual({ late: true });
  await transact((tx) => jobs.remove(tx, JOB));
  await add({ n: 1 });
  await transact((tx) => jobs.resubmit(tx, JOB, 0, { n: 2 }, { later: true }));
  expect(await get()).toMatchObject({ data: { n: 2 }, request: { later: true } });
  expect((await kv.read((tx) => jobs.counts.read(tx, TYPE))).pending).toBe(1);
  await accept();
});

test("removing a job removes its request", async () => {
  await add({}, LARGE);
  await accept();
  await add({}, LARGE);
  expect(await requestRowCount()).toBeGreaterThan(2);
  await transact((tx) => jobs.remove(tx, JOB));
  expect(await requestRowCount()).toBe(0);
  await add({});
  expect((await get())?.request).toBeUndefined();
});

test("a job without a request has no request row, which saves a read", async () => {
  await add({ n: 1 });
  const without = await cost(get);
  await add({ n: 1 }, { small: true });
  const withRequest = await cost(get);
  expect(withRequest.readCount - without.readCount).toBe(1);
  expect(without).toEqual({ readCount: 2, writtenCount: 0 });
});

test("a job's request is decoded when it is first used, and only once", async () => {
  let decodedCount = 0;
  jobs = new Jobs(runtime, SUBSPACE, {
    encode: (_, request) => request,
    decode: (_, stored) => {
      decodedCount++;
      return stored;
    },
    renew: () => undefined,
  });
  await add({ n: 1 }, LARGE);
  const waiting = (await get()) as Job;
  const { job: running } = await accept();
  expect([waiting.data, running.data]).toEqual([{ n: 1 }, { n: 1 }]);
  expect(decodedCount).toBe(0);
  expect([running.request, running.request, waiting.request]).toEqual([LARGE, LARGE, LARGE]);
  expect(decodedCount).toBe(2);
});
