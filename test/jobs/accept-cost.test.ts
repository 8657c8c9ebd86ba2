/**
 * An acceptance reads and writes the same number of keys with a million jobs or ten thousand groups
 * as with a hundred.
 */
import { expect, test } from "vitest";
import { EMPTY_BYTES } from "../../src/base/index.ts";
import { createSystemRuntime } from "../../src/host/index.ts";
import { Jobs } from "../../src/jobs/index.ts";
import { type JobKeys, jobKeys } from "../../src/jobs/job-keys.ts";
import { encodeWaiting } from "../../src/jobs/job-record.ts";
import {
  type CommitRequest,
  KeyValueStore,
  keyText,
  MemoryEngine,
  MemoryStorage,
  type Mutation,
  Subspace,
} from "../../src/kv/index.ts";
import { countingEngine, type KeyCounts } from "../support/kv/counting-engine.ts";

const TYPE = "test";
/**
 * Number of acceptances per measurement. Large enough that some of them try grouped jobs first:
 * after an attempt that found no grouped jobs, one acceptance in eight does.
 */
const ACCEPT_COUNT = 80;
/**
 * Minimum number of jobs created with `add`, and the size of the smallest queue. All other jobs are
 * written as rows.
 */
const ADDED_COUNT = 100;
/** Number of jobs written per commit. */
const BATCH_ROWS = 1_000;

/**
 * Returns the rows of the jobs from `start` (inclusive) to `end` (exclusive), as `add` would write
 * them. Calling `add` for a million jobs would take minutes because of its reads and transactions.
 */
function jobRows(
  keys: JobKeys,
  start: number,
  end: number,
  group: (number: number) => string | undefined,
): CommitRequest {
  const mutations: Mutation[] = [];
  const values = new Map<string | undefined, Uint8Array>();
  for (let number = start; number < end; number++) {
    const name = { type: TYPE, id: `job-${number}` };
    const plan = { scheduledAtSec: 1, group: group(number), labels: [] };
    const value =
      values.get(plan.group) ?? encodeWaiting("pending", { ...plan, hasRequest: false });
    values.set(plan.group, value);
    const indexKey =
      plan.group === undefined
        ? keys.pending.key({ ...name, queue: TYPE, scheduledAtSec: 1 })
        : keys.groupPending.key({ ...name, queue: TYPE, group: plan.group, scheduledAtSec: 1 });
    mutations.push({ kind: "set", key: keyText(keys.job.key(name)), value });
    mutations.push({ kind: "set", key: keyText(indexKey), value: EMPTY_BYTES });
  }
  return { readVersion: undefined, reads: [], writes: [], mutations };
}

/**
 * Returns the largest numbers of keys that an acceptance has read and written. If `groupCount` is
 * 0, the jobs have no group.
 */
async function cost(jobCount: number, groupCount: number): Promise<KeyCounts> {
  const runtime = createSystemRuntime();
  const storage = new MemoryStorage();
  const { engine, counts } = countingEngine(new MemoryEngine({ runtime, storage }));
  const kv = new KeyValueStore({ runtime, engine });
  const subspace = Subspace.fromTuple(["jobs"]);
  const jobs = new Jobs(runtime, subspace);
  await kv.transact((tx) => jobs.setTypeTimeout(tx, TYPE, 60));
  const group = (number: number) => (groupCount === 0 ? undefined : `group-${number % groupCount}`);
  const addedCount = Math.max(ADDED_COUNT, 2 * groupCount);
  for (let number = 0; number < addedCount; number++) {
    const name = { type: TYPE, id: `job-${number}` };
    const plan = { scheduledAtSec: 1, group: group(number) };
    await kv.transact((tx) => jobs.add(tx, name, {}, plan));
  }
  for (let start = addedCount; start < jobCount; start += BATCH_ROWS) {
    const end = Math.min(jobCount, start + BATCH_ROWS);
    storage.commit(jobRows(jobKeys(subspace), start, end, group), runtime.clock.monotonicMs());
  }
  const accept = () => kv.transact((tx) => jobs.accept(tx, TYPE, { dueBySec: 1, countMax: 1 }));
  // Move all groups into the index of ready groups: each acceptance moves eight groups.
  const settledCount = groupCount / 8 + 1;
  for (let count = 0; count < settledCount; count++) await accept();
  const most = { readCount: 0, writtenCount: 0 };
  for (let count = 0; count < ACCEPT_COUNT; count++) {
    const { readCount, writtenCount } = counts;
    expect((await accept()).kind).toBe("accepted");
    most.readCount = Math.max(most.readCount, counts.readCount - readCount);
    most.writtenCount = Math.max(most.writtenCount, counts.writtenCount - writtenCount);
  }
  await kv.close();
  return most;
}

test("an acceptance reads and writes the same number of keys with 10², 10⁴ and 10⁶ jobs", async () => {
  const few = await cost(100, 0);
  // There are no other acceptors, so an acceptance reads only the job that it accepts.
  expect(few.readCount).toBeLessThan(15);
  expect(await cost(10_000, 0)).toEqual(few);
  expect(await cost(1_000_000, 0)).toEqual(few);
});

test("an acceptance from groups reads and writes the same number of keys with 10², 10⁴ and 10⁶ jobs", async () => {
  const few = await cost(100, 10);
  expect(few.readCount).toBeLessThan(20);
  expect(await cost(10_000, 10)).toEqual(few);
  expect(await cost(1_000_000, 10)).toEqual(few);
});

test("an acceptance reads and writes the same number of keys with 8 and with 10⁴ groups, and slightly fewer with one group", async () => {
  const one = await cost(20_000, 1);
  const eight = await cost(20_000, 8);
  expect(await cost(20_000, 10_000)).toEqual(eight);
  // If enough groups are ready, an acceptor reads eight rows of the index of groups instead of one.
  expect(eight.readCount - one.readCount).toBe(7);
  expect(eight.writtenCount).toBe(one.writtenCount);
});
