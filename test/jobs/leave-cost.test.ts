/** Rows that a transaction reads when it removes many jobs of one group from the queue. */
import { expect, test } from "vitest";
import { createSystemRuntime } from "../../src/host/index.ts";
import { Jobs } from "../../src/jobs/index.ts";
import { KeyValueStore, MemoryEngine, Subspace, type Transaction } from "../../src/kv/index.ts";

const TYPE = "copy";
const FAR_SEC = 10_000_000_000;
const JOB_COUNT = 50;

/** Wraps a transaction, and records the start of each range that the transaction reads. */
function recording(tx: Transaction) {
  const ranges: Uint8Array[] = [];
  const getRangePage: Transaction["getRangePage"] = (range, options) => {
    ranges.push(range.begin as Uint8Array);
    return tx.getRangePage(range, options);
  };
  const recorded = new Proxy(tx, {
    get(target, name) {
      if (name === "getRangePage") return getRangePage;
      const member: unknown = Reflect.get(target, name, target);
      return typeof member === "function" ? member.bind(target) : member;
    },
  });
  return { recorded, ranges };
}

async function openJobs(dueSec: (number: number) => number) {
  const runtime = createSystemRuntime();
  const kv = new KeyValueStore({ runtime, engine: new MemoryEngine({ runtime }) });
  const jobs = new Jobs(runtime, Subspace.fromTuple(["jobs"]));
  await kv.transact((tx) => jobs.setTypeTimeout(tx, TYPE, 60));
  const names = Array.from({ length: JOB_COUNT }, (_, number) => ({
    type: TYPE,
    id: `job-${String(number).padStart(3, "0")}`,
  }));
  for (const [number, name] of names.entries()) {
    const plan = { group: "g", scheduledAtSec: dueSec(number) };
    await kv.transact((tx) => jobs.add(tx, name, {}, plan));
  }
  return { kv, jobs, names };
}

test("a transaction that moves jobs other than the first job of their group does not read the queue", async () => {
  const { kv, jobs, names } = await openJobs((number) => FAR_SEC - 1_000 + number);
  await kv.transact(async (tx) => {
    const { recorded, ranges } = recording(tx);
    for (const name of names.slice(1)) await jobs.resubmit(recorded, name, FAR_SEC);
    expect(ranges).toEqual([]);
  });
  await kv.close();
});

test("a transaction that moves a group's first job repeatedly does not read rows of jobs that it moved earlier", async () => {
  const { kv, jobs, names } = await openJobs(() => FAR_SEC - 1_000);
  await kv.transact(async (tx) => {
    const { recorded, ranges } = recording(tx);
    for (const name of names) await jobs.resubmit(recorded, name, FAR_SEC);
    // Each read begins at the row that the previous read found.
    const begins = ranges.map((begin) => Buffer.from(begin).toString("hex"));
    expect(new Set(begins).size).toBe(JOB_COUNT);
    expect(begins).toEqual(begins.toSorted());
  });
  await kv.close();
});

test("an acceptor finds a job that was moved to a row before the group's cached first row", async () => {
  const { kv, jobs, names } = await openJobs(() => FAR_SEC - 1_000);
  const [first, second, third] = names as [never, never, never];
  await kv.transact(async (tx) => {
    await jobs.resubmit(tx, first, FAR_SEC);
    for (const name of [second, third]) await jobs.resubmit(tx, name, 1);
    await jobs.resubmit(tx, second, FAR_SEC);
  });
  const accepted = await kv.transact((tx) => jobs.accept(tx, TYPE, { dueBySec: 2, countMax: 1 }));
  expect(accepted).toMatchObject({ kind: "accepted", held: [{ id: "job-002" }] });
  await kv.close();
});
