/** The index of jobs agrees with the jobs, whatever happened to them; it is built where there is none, and repaired. */
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createSystemRuntime } from "../../src/host/index.ts";
import { Jobs } from "../../src/jobs/index.ts";
import { KeyValueStore, MemoryEngine, packTuple, unpackTuple } from "../../src/kv/index.ts";
import { parseReplication, REPLICATION_JOB_TYPE } from "../../src/replicator/index.ts";
import { jobOutcome, newJobData } from "../../src/replicator/jobs/job-data.ts";
import { encodeProgress, encodeRequest } from "../../src/replicator/jobs/job-data-record.ts";
import type { EndedJob } from "../../src/replicator/jobs/job-index.ts";
import { decodeStatus } from "../../src/replicator/jobs/job-status.ts";
import { SUBSPACES } from "../../src/server/layout.ts";
import { composeNode, JOBS_SUBSPACE } from "../support/compose-node.ts";
import { indexProblems } from "../support/index-problems.ts";
import { History, JOB_STEP, repairAll, type Step } from "../support/job-history.ts";

function open() {
  const runtime = createSystemRuntime();
  const kv = new KeyValueStore({ runtime, engine: new MemoryEngine({ runtime }) });
  return { ...composeNode({ runtime, kv }), runtime, kv };
}

const ONE = { limit: 1 };

describe("the index of jobs", () => {
  let node: ReturnType<typeof open>;
  beforeEach(async () => {
    node = open();
    await node.replicator.prepare();
  });
  afterEach(() => node.kv.close());

  const problems = () => node.kv.read((tx) => indexProblems(tx, node.jobs, node.failureLists));

  test("agrees with the jobs after any history", { timeout: 120_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(JOB_STEP, { minLength: 1, maxLength: 60 }), async (steps) => {
        const own = open();
        await own.replicator.prepare();
        const history = new History(own);
        const first = ["add", "accept", "begin"].flatMap((event) =>
          [0, 1, 2].map((job): Step => ({ event, job, failure: "other" })),
        );
        for (const one of [...first, ...steps]) {
          await history.apply(one);
          expect(await own.kv.read((tx) => indexProblems(tx, own.jobs, own.failureLists))).toEqual(
            [],
          );
        }
        await own.kv.close();
      }),
      { numRuns: 40 },
    );
  });

  test("follows the list of failures of a replication", async () => {
    const history = new History(node);
    const happen = (event: string) => history.apply({ event, job: 0, failure: "other" });
    const hasLeftBehind = async () => {
      const page = await node.kv.read((tx) => node.jobs.list(tx, REPLICATION_JOB_TYPE, ONE));
      const id = page.entries[0]?.id ?? "";
      return (await node.kv.read((tx) => node.index.status(tx, id)))?.hasLeftBehind;
    };
    for (const event of ["add", "accept", "begin", "leave-behind"]) await happen(event);
    expect(await hasLeftBehind()).toBe(true);
    await happen("arrive");
    expect(await hasLeftBehind()).toBe(false);
  });

  test("is repaired when a node that knows no index changed jobs beside us", async () => {
    const replication = (n: number) => parseReplication({ source: "a", target: `b${n}` });
    const requester = { userName: null, isAdmin: true };
    const ids: string[] = [];
    for (let n = 0; n < 3; n++) ids.push(await node.replicator.start(replication(n), requester));
    const older = new Jobs(node.runtime, JOBS_SUBSPACE);
    const wanted = { dueBySec: 2 ** 33, countMax: 1 };
    await node.kv.transact((tx) => older.accept(tx, REPLICATION_JOB_TYPE, wanted));
    const last = { type: REPLICATION_JOB_TYPE, id: ids[2] as string };
    await node.kv.transact((tx) => older.remove(tx, last));
    expect(await problems()).not.toEqual([]);
    expect((await repairAll(node)).repairedCount).toBeGreaterThan(0);
    expect(await problems()).toEqual([]);
  });

  test("is built in pages for a store without one, by several nodes at once", async () => {
    const requester = { userName: "ann", isAdmin: true };
    const replication = (n: number) => parseReplication({ source: "a", target: `b${n}` });
    for (let n = 0; n < 450; n++) await node.replicator.start(replication(n), requester);
    const { begin } = SUBSPACES.replicator.range([17]);
    const { end } = SUBSPACES.replicator.range([20]);
    await node.kv.transact(async (tx) => {
      tx.clearRange({ begin, end });
      tx.clear(SUBSPACES.replicator.pack([20]));
    });
    expect(await problems()).not.toEqual([]);
    const build = () => node.index.build(node.kv, node.jobs);
    await Promise.all([build(), build(), build()]);
    expect(await problems()).toEqual([]);
  });

  test("of an older format is written again, with the rows that it lacked", async () => {
    for (let n = 0; n < 3; n++) await addEnded(n);
    await node.kv.transact(async (tx) => {
      const { entries } = await tx.getRangePage(SUBSPACES.replicator.range([17]));
      for (const { key, value } of entries) {
        const { endedMs: _, ...status } = decodeStatus(value);
        tx.set(key, packTuple([1, new TextEncoder().encode(JSON.stringify(status))]));
      }
      tx.clearRange(SUBSPACES.replicator.range([18, "ended"]));
      tx.set(SUBSPACES.replicator.pack([20]), packTuple([1, null]));
    });
    expect(await problems()).toHaveLength(3);
    await node.index.build(node.kv, node.jobs);
    expect(await problems()).toEqual([]);
  });

  test("of a format without hosts gets the causes of jobs that fail", async () => {
    const history = new History(node);
    for (const event of ["add", "accept", "begin", "crashed"]) {
      await history.apply({ event, job: 0, failure: "unreachable" });
    }
    await node.kv.transact(async (tx) => {
      const { entries } = await tx.getRangePage(SUBSPACES.replicator.range([17]));
      for (const { key, value } of entries) {
        const stored = JSON.parse(new TextDecoder().decode(unpackTuple(value)[1] as Uint8Array));
        stored[2] = stored[2].slice(0, 3);
        tx.set(key, packTuple([2, new TextEncoder().encode(JSON.stringify(stored))]));
      }
      const { begin } = SUBSPACES.replicator.range([18, "cause"]);
      tx.clearRange({ begin, end: SUBSPACES.replicator.range([18, "cause-sincf"]).begin });
      tx.clearRange(SUBSPACES.replicator.range([19, "cause"]));
      tx.set(SUBSPACES.replicator.pack([20]), packTuple([2, null]));
    });
    expect(await problems()).toHaveLength(3);
    await node.index.build(node.kv, node.jobs);
    expect(await problems()).toEqual([]);
  });

  test("finds the transient jobs that ended before a time, in pages", async () => {
    for (let n = 0; n < 450; n++) await addEnded(n);
    const found: number[] = [];
    const find = (after?: EndedJob) =>
      node.kv.read((tx) => node.index.endedTransients(tx, 440, after));
    for (let page = await find(); page.length > 0; page = await find(page.at(-1))) {
      expect(page.length).toBeLessThanOrEqual(200);
      found.push(...page.map(({ endedMs }) => endedMs));
    }
    expect(found).toEqual(Array.from({ length: 440 }, (_, n) => n));
  });

  test("is compared page by page", async () => {
    for (let n = 0; n < 450; n++) await addEnded(n);
    expect(await repairAll(node)).toEqual({ repairedCount: 0, pageCount: 3 });
  });

  test("is compared in parts, and old transient jobs are taken from it without a look at the others", async () => {
    for (let n = 0; n < 2100; n++) await addEnded(n);
    const list = vi.spyOn(node.jobs, "list");
    const pageCounts: number[] = [];
    for (let cleanUp = 0; cleanUp < 3; cleanUp++) {
      list.mockClear();
      await node.replicator.repairIndex();
      pageCounts.push(list.mock.calls.length);
    }
    expect(pageCounts).toEqual([10, 1, 10]);
    list.mockClear();
    await node.replicator.removeOldTransients();
    expect(list).not.toHaveBeenCalled();
  });

  /** A transient job that ended `endedMs` after 1970. */
  async function addEnded(endedMs: number): Promise<void> {
    const replication = parseReplication({ source: "a", target: `b${endedMs}` });
    const asked = { replication, refusal: undefined, document: undefined, userName: null };
    const data = newJobData({ ...asked, replicationId: undefined }, endedMs);
    const name = { type: REPLICATION_JOB_TYPE, id: `job${endedMs}` };
    const ended = encodeProgress({ ...data, ...jobOutcome("completed", undefined, {}) });
    const request = encodeRequest(data);
    await node.kv.transact((tx) => node.jobs.add(tx, name, ended, { request, scheduledAtSec: 1 }));
  }
});
