/**
 * Pages of jobs. Together, the pages contain each matching job once and in order. A page reads as
 * many keys as it has rows.
 */
import fc from "fast-check";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createSystemRuntime } from "../../../src/host/index.ts";
import { KeyValueStore, MemoryEngine } from "../../../src/kv/index.ts";
import type { DocumentFailure } from "../../../src/replicator/failures/run-failures.ts";
import {
  Glob,
  type JobPageRequest,
  type JobPosition,
  parseReplication,
  REPLICATION_JOB_TYPE,
} from "../../../src/replicator/index.ts";
import { failingAfter, NO_PLACE } from "../../../src/replicator/jobs/failing.ts";
import { jobOutcome } from "../../../src/replicator/jobs/job-data.ts";
import { decodeJob, encodeProgress } from "../../../src/replicator/jobs/job-data-record.ts";
import { composeNode } from "../../support/compose-node.ts";
import { countingEngine } from "../../support/kv/counting-engine.ts";

const JOBS = 1500;
const FAILURE = { error: "error", reason: "refused" };

let node: ReturnType<typeof open>;
const ids: string[] = [];

function open() {
  const runtime = createSystemRuntime();
  const { engine, counts } = countingEngine(new MemoryEngine({ runtime }));
  const kv = new KeyValueStore({ runtime, engine });
  return { ...composeNode({ runtime, kv }), kv, counts };
}

/**
 * Adds jobs. One job in ten fails, and the order of the failure times is the reverse of the order
 * of the ids.
 */
beforeEach(async () => {
  node = open();
  await node.replicator.prepare();
  ids.length = 0;
  for (let n = 0; n < JOBS; n++) {
    const source = n % 2 === 0 ? "http://even.example/db" : "odd";
    const replication = parseReplication({ source, target: `t${n}`, continuous: true });
    ids.push(await node.replicator.start(replication, { userName: "ann", isAdmin: true }));
  }
  ids.sort();
  for (let n = 0; n < JOBS; n += 10) {
    const name = { type: REPLICATION_JOB_TYPE, id: ids[n] as string };
    await node.kv.transact(async (tx) => {
      const job = await node.jobs.get(tx, name);
      if (job === undefined) throw new Error("The job is there");
      const cause = { ...NO_PLACE, class: "unreachable" } as const;
      const failing = { ...failingAfter(undefined, FAILURE, cause, JOBS - n), tries: n % 7 };
      const data = { ...decodeJob(job), ...jobOutcome("crashing", FAILURE), failing };
      await node.jobs.resubmit(tx, name, 2 ** 35, encodeProgress(data));
    });
  }
});
afterEach(() => node.kv.close());

async function pages(request: Omit<JobPageRequest, "after">): Promise<string[]> {
  const found: string[] = [];
  let after: JobPosition | undefined;
  do {
    const page = await node.replicator.lists.page({ ...request, after });
    expect(page.entries.length).toBeLessThanOrEqual(request.limit);
    found.push(...page.entries.map(({ jobId }) => jobId));
    after = page.next;
  } while (after !== undefined);
  return found;
}

/** Gives one job in five a lag. The lags begin in the order of the ids. */
async function fallBehind(): Promise<void> {
  for (let n = 0; n < JOBS; n += 5) {
    const backlog = { sinceMs: 1000 + n, pending: 1, seenMs: 5000 };
    await node.kv.transact((tx) => node.backlogs.set(tx, ids[n] as string, backlog));
  }
}

const behindIds = () => ids.filter((_, n) => n % 5 === 0);

const failingIds = () => ids.filter((_, n) => n % 10 === 0);

test("together, the pages contain all matching jobs, in ascending and in descending order", async () => {
  expect(await pages({ filter: {}, limit: 333 })).toEqual(ids);
  expect(await pages({ filter: {}, limit: 250, descending: true })).toEqual(ids.toReversed());
  const both = { states: ["crashing", "pending"] } as const;
  expect(await pages({ filter: both, limit: 400 })).toEqual(ids);
  expect(await pages({ filter: both, limit: 400, descending: true })).toEqual(ids.toReversed());
  expect(await pages({ filter: { failing: true }, limit: 7 })).toEqual(failingIds());
  expect(await pages({ filter: {}, order: "since", limit: 7 })).toEqual(failingIds().toReversed());
  const rest = await pages({ filter: { failing: false }, limit: 100 });
  expect(rest).toEqual(ids.filter((_, n) => n % 10 !== 0));
  const even = await pages({ filter: { failing: true, source: "even.example" }, limit: 7 });
  const odd = await pages({ filter: { failing: true, source: "odd" }, limit: 7 });
  expect([...even, ...odd].toSorted()).toEqual(failingIds());
});

test("skip and limit select the same jobs as a slice of the whole list", async () => {
  for (const [skip, limit] of [
    [0, 1],
    [3, 5],
    [199, 2],
    [200, 200],
    [1499, 3],
    [1600, 3],
  ] as const) {
    const { entries, total } = await node.replicator.lists.page({ filter: {}, skip, limit });
    expect(entries.map(({ jobId }) => jobId)).toEqual(ids.slice(skip, skip + limit));
    expect(total).toBe(JOBS);
  }
});

test("failing jobs can be listed in the order of their numbers of attempts", async () => {
  const { entries, total } = await node.replicator.lists.page({
    filter: {},
    order: "tries",
    descending: true,
    limit: 20,
  });
  expect(total).toBe(JOBS / 10);
  expect(new Set(entries.map(({ data }) => data.failing?.tries))).toEqual(new Set([6]));
});

test("the first page reads as many keys as it has rows, whatever the number of jobs", async () => {
  const requests: readonly JobPageRequest[] = [
    { filter: {}, limit: 10 },
    { filter: { states: ["crashing"] }, limit: 10 },
    { filter: { failing: true }, order: "since", limit: 10 },
    { filter: {}, order: "shown-id", limit: 10 },
    { filter: { source: "odd" }, limit: 10 },
  ];
  await node.index.foldAll(node.kv);
  for (const request of requests) {
    const before = node.counts.readCount;
    const { entries } = await node.replicator.lists.page(request);
    expect(entries.length).toBe(10);
    expect(node.counts.readCount - before).toBeLessThan(80);
  }
});

test("a page with a filter reads only a few more rows than it returns", async () => {
  await node.index.foldAll(node.kv);
  const tested = vi.spyOn(node.index.statuses, "getMany");
  const { entries } = await node.replicator.lists.page({ filter: { failing: false }, limit: 50 });
  expect(entries.map(({ jobId }) => jobId)).toEqual(
    ids.filter((_, n) => n % 10 !== 0).slice(0, 50),
  );
  const testedIds = tested.mock.calls.flatMap(([, jobIds]) => jobIds);
  expect(testedIds.length).toBeLessThan(75);
});

test("the details of all jobs on a page are read in one transaction", async () => {
  const { replicator, kv, failureLists } = node;
  const left = ids[7] as string;
  const { entries } = await replicator.lists.page({ filter: {}, limit: 100 });
  const baseId = entries[7]?.data.replicationId?.replace(/\+.*$/, "") as string;
  const failure = { id: "d", revision: "1-a", status: 403, error: "e", reason: "", phase: "write" };
  const change = { failed: [failure as DocumentFailure], arrived: [], nowMs: 1 };
  await kv.transact((tx) => failureLists.change(tx, baseId, change));
  await replicator.commands.pause(ids[8] as string, { userName: null });
  const read = vi.spyOn(kv, "read");
  const totals = await replicator.failures.totals(entries);
  const controls = await replicator.commands.controls(entries.map(({ jobId }) => jobId));
  expect(read).toHaveBeenCalledTimes(2);
  expect(totals).toEqual(entries.map(({ jobId }) => (jobId === left ? 1 : 0)));
  expect(controls.map(({ isPaused }) => isPaused)).toEqual(
    entries.map(({ jobId }) => jobId === ids[8]),
  );
});

test("jobs that are named by id are read in pages, each job once", async () => {
  const named = ["nobody", ...ids.slice(0, 450), ids[0] as string];
  const read = vi.spyOn(node.kv, "read");
  const found = await node.replicator.lists.entries(named);
  expect(read).toHaveBeenCalledTimes(3);
  expect([...found.keys()]).toEqual(ids.slice(0, 450));
  for (const [id, { jobId }] of found) expect(jobId).toBe(id);
});

test("each page reads only those changes that the index lacks and that no earlier page has read", async () => {
  await node.index.foldAll(node.kv);
  const id = ids[0] as string;
  const { commands } = node.replicator;
  for (let n = 0; n < 100; n++) {
    await commands[n % 2 === 0 ? "pause" : "resume"](id, { userName: null });
  }
  const reads: number[] = [];
  for (let page = 0; page < 3; page++) {
    const before = node.counts.readCount;
    await node.replicator.lists.page({ filter: { paused: false }, limit: 10 });
    reads.push(node.counts.readCount - before);
    await commands.pause(ids.at(-1 - page) as string, { userName: null });
  }
  expect(reads[0]).toBeGreaterThan(100);
  expect(reads.slice(1).every((count) => count < 80)).toBe(true);
});

test("jobs with a lag can be listed in the order of their lags, and filtered by a minimum lag", async () => {
  await fallBehind();
  const list = (request: Omit<JobPageRequest, "after" | "limit">) =>
    pages({ ...request, limit: 41 });
  expect(await list({ filter: {}, order: "lag" })).toEqual(behindIds().toReversed());
  expect(await list({ filter: {}, order: "lag", descending: true })).toEqual(behindIds());
  const long = { behindSinceMs: 1100 };
  expect(await list({ filter: long })).toEqual(behindIds().slice(0, 21));
  expect(await list({ filter: long, order: "lag" })).toEqual(behindIds().slice(0, 21).toReversed());
  const failing = { ...long, failing: true };
  const both = behindIds().filter((id, n) => n < 21 && failingIds().includes(id));
  expect(await list({ filter: failing })).toEqual(both);
  expect(await list({ filter: failing, order: "lag", descending: true })).toEqual(both);
  const total = async (filter: JobPageRequest["filter"], order: "id" | "lag") =>
    (await node.replicator.lists.page({ filter, order, limit: 1 })).total;
  expect(await total({}, "lag")).toBe(300);
  expect(await total(long, "id")).toBe(21);
  expect(await total(long, "lag")).toBe(21);
});

test("a job that has caught up is not listed among jobs with a lag", async () => {
  await fallBehind();
  const caughtUp = { sinceMs: undefined, pending: 0, seenMs: 6000 };
  await node.kv.transact((tx) => node.backlogs.set(tx, ids[0] as string, caughtUp));
  const listed = await pages({ filter: {}, order: "lag", limit: 500, descending: true });
  expect(listed).toEqual(behindIds().slice(1));
});

test("a job is listed as caught up only if its source has confirmed that no changes are pending", async () => {
  await fallBehind();
  expect(await pages({ filter: { isCaughtUp: true }, limit: 500 })).toEqual([]);
  const proven = fc.uniqueArray(fc.nat({ max: JOBS - 1 }), { maxLength: 20 });
  const seen = new Set<string>();
  await fc.assert(
    fc.asyncProperty(proven, async (numbers) => {
      const caughtUp = { sinceMs: undefined, pending: 0, seenMs: 6000 };
      for (const n of numbers) {
        const id = ids[n] as string;
        seen.add(id);
        await node.kv.transact((tx) => node.backlogs.set(tx, id, caughtUp));
      }
      const listed = await pages({ filter: { isCaughtUp: true }, limit: 100 });
      expect(listed).toEqual([...seen].toSorted());
    }),
    { numRuns: 10 },
  );
});

test("a filter by lag finds all matching jobs even if too many jobs have a lag to sort them", async () => {
  const requester = { userName: "ann", isAdmin: true };
  for (let n = 0; n < 600; n++) {
    const replication = parseReplication({ source: "more", target: `m${n}`, continuous: true });
    ids.push(await node.replicator.start(replication, requester));
  }
  ids.sort();
  for (const id of ids) {
    await node.kv.transact((tx) =>
      node.backlogs.set(tx, id, { sinceMs: 1000, pending: 1, seenMs: 5000 }),
    );
  }
  expect(await pages({ filter: { behindSinceMs: 1000 }, limit: 400 })).toEqual(ids);
  expect(await pages({ filter: { behindSinceMs: 999 }, limit: 400 })).toEqual([]);
});

test.each([
  ["the beginning of a name", "sourceDatabase", "od*", (n: number) => n % 2 === 1],
  ["the beginning of a name on another server", "sourceDatabase", "d*", (n: number) => n % 2 === 0],
  ["a pattern", "targetDatabase", "t12*4", (n: number) => /^12\d*4$/.test(String(n))],
  ["a pattern without a literal beginning", "targetDatabase", "*99", (n: number) => n % 100 === 99],
  ["a whole name", "targetDatabase", "t7", (n: number) => n === 7],
] as const)(
  "a filter of databases by %s finds the matching jobs",
  async (_, member, pattern, isFound) => {
    const filter = { [member]: new Glob(pattern) };
    const found = await pages({ filter, order: "id", descending: false, limit: 100 });
    const names = await Promise.all(
      found.map(async (jobId) => {
        const target = (await node.replicator.find(jobId))?.data.replication?.target;
        return target?.kind === "local" ? Number(target.database.slice(1)) : Number.NaN;
      }),
    );
    const expected = Array.from({ length: JOBS }, (_, n) => n).filter(isFound);
    expect(names.toSorted((left, right) => left - right)).toEqual(expected);
  },
);

test("a filter by a database name uses the index instead of reading all jobs", async () => {
  await node.index.foldAll(node.kv);
  const before = node.counts.readCount;
  const filter = { targetDatabase: new Glob("t149*") };
  const { entries } = await node.replicator.lists.page({ filter, limit: 20 });
  expect(entries).toHaveLength(11);
  expect(node.counts.readCount - before).toBeLessThan(120);
});
