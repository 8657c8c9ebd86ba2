/** Tags of jobs: lists, counts and groups by tag, which follow every change of the tags. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { createSystemRuntime } from "../../../src/host/index.ts";
import { KeyValueStore, MemoryEngine } from "../../../src/kv/index.ts";
import {
  type JobFilter,
  parseReplication,
  REPLICATION_JOB_TYPE,
  type Tags,
} from "../../../src/replicator/index.ts";
import { failingAfter, NO_PLACE } from "../../../src/replicator/jobs/failing.ts";
import { jobOutcome, type ReplicationJobData } from "../../../src/replicator/jobs/job-data.ts";
import { decodeJob, encodeProgress } from "../../../src/replicator/jobs/job-data-record.ts";
import { SUBSPACES } from "../../../src/server/layout.ts";
import { composeNode } from "../../support/compose-node.ts";
import { indexProblems } from "../../support/index-problems.ts";

const NOW_MS = 1_800_000_000_000;
const FAILURE = { error: "error", reason: "refused" };

let node: ReturnType<typeof open>;

function open() {
  const system = createSystemRuntime();
  const runtime = { ...system, clock: { ...system.clock, nowMs: () => NOW_MS } };
  const kv = new KeyValueStore({ runtime, engine: new MemoryEngine({ runtime }) });
  return { ...composeNode({ runtime, kv }), kv };
}

beforeEach(async () => {
  node = open();
  await node.replicator.prepare();
});
afterEach(() => node.kv.close());

function addJob(target: string, tags: Tags | undefined): Promise<string> {
  const replication = parseReplication({ source: "http://far.example/db", target, tags });
  return node.replicator.start(replication, { userName: "ann", isAdmin: true });
}

async function change(id: string, changed: Partial<ReplicationJobData>): Promise<void> {
  await node.kv.transact(async (tx) => {
    const job = await node.jobs.get(tx, { type: REPLICATION_JOB_TYPE, id });
    if (job === undefined) throw new Error("The job is there");
    const data = { ...decodeJob(job), ...changed } as ReplicationJobData;
    await node.jobs.resubmit(tx, job, 2 ** 33, encodeProgress(data));
  });
}

async function fail(id: string, host: string, sinceMs = NOW_MS): Promise<void> {
  const cause = { ...NO_PLACE, class: "unreachable", host } as const;
  const failing = failingAfter(undefined, FAILURE, cause, sinceMs);
  await change(id, { ...jobOutcome("crashing", FAILURE), failing });
}

async function listed(filter: JobFilter) {
  const { entries, total } = await node.replicator.lists.page({ filter, limit: 100 });
  return { ids: entries.map(({ jobId }) => jobId).sort(), total };
}

/** Checks the list of jobs with these tags before and after pending changes are folded. */
async function expectListed(tags: readonly string[], ids: readonly string[]): Promise<void> {
  const expected = { ids: ids.toSorted(), total: ids.length };
  expect(await listed({ tags })).toEqual(expected);
  await node.index.foldAll(node.kv);
  expect(await listed({ tags })).toEqual(expected);
}

test("a filter by several tags lists the jobs that have all of these tags", async () => {
  const a = await addJob("a", { team: "billing", env: "prod" });
  const b = await addJob("b", { team: "billing-eu", env: "prod" });
  const c = await addJob("c", { team: "billing" });
  const d = await addJob("d", undefined);
  await expectListed(["team:billing"], [a, c]);
  await expectListed(["team"], [a, b, c]);
  await expectListed(["team:billing", "env:prod"], [a]);
  await expectListed(["team:sales"], []);
  expect(await listed({ tags: ["env"], owner: "ann" })).toMatchObject({ ids: [a, b].sort() });
  expect((await listed({})).ids).toContain(d);
});

test("repeating a request with other tags changes only the tags of the job", async () => {
  const id = await addJob("a", { team: "billing" });
  await fail(id, "one.example");
  const before = (await node.replicator.find(id))?.data;
  // The job's run has ended, so that only `_replicate` starts the job again.
  await change(id, { ...jobOutcome("pending") });
  expect(await addJob("a", { team: "sales", env: "prod" })).toBe(id);
  const after = (await node.replicator.find(id))?.data;
  expect(after?.replication?.tags).toEqual({ env: "prod", team: "sales" });
  expect(after).toMatchObject({ history: before?.history, failing: before?.failing });
  await expectListed(["team:billing"], []);
  await expectListed(["team:sales"], [id]);
  expect(await node.kv.read((tx) => indexProblems(tx, node))).toEqual([]);
  await addJob("a", undefined);
  expect((await node.replicator.find(id))?.data.replication?.tags).toBe(undefined);
  await expectListed(["team"], []);
  expect(await node.kv.read((tx) => indexProblems(tx, node))).toEqual([]);
});

test("tags do not affect the ids of a job and its replication", async () => {
  const id = await addJob("a", undefined);
  const before = (await node.replicator.find(id))?.data.replicationId;
  expect(await addJob("a", { team: "billing" })).toBe(id);
  expect((await node.replicator.find(id))?.data.replicationId).toBe(before);
});

test("failing jobs are grouped by the values of a tag, with the longest-failing job as example", async () => {
  const a = await addJob("a", { team: "billing" });
  const b = await addJob("b", { team: "billing" });
  const c = await addJob("c", { team: "sales", env: "prod" });
  await fail(a, "one.example", NOW_MS - 1000);
  await fail(b, "two.example", NOW_MS - 2000);
  await fail(c, "one.example");
  await fail(await addJob("d", undefined), "one.example");
  const groups = async (tag?: string) => {
    const page = await node.replicator.failing.page({ skip: 0, limit: 10, tag });
    const rows = page.groups.map(({ tag, count, host, example }) => [
      tag,
      count,
      host,
      example.jobId,
    ]);
    return { rows, total: page.total, jobCount: page.jobCount };
  };
  const expected = {
    rows: [
      ["billing", 2, "two.example", b],
      ["sales", 1, "one.example", c],
    ],
    total: 2,
    jobCount: 4,
  };
  expect(await groups("team")).toEqual(expected);
  await node.index.foldAll(node.kv);
  expect(await groups("team")).toEqual(expected);
  expect(await groups("te")).toEqual({ rows: [], total: 0, jobCount: 4 });
  expect((await groups()).rows.map(([tag, count]) => [tag, count])).toEqual([
    [undefined, 3],
    [undefined, 1],
  ]);
});

test("jobs are counted by tag and state, and values beyond the limit are counted only in the total", async () => {
  for (const [n, team] of ["a", "b", "b", "c"].entries()) {
    const id = await addJob(`t${n}`, { team });
    if (n === 1) await fail(id, "one.example");
  }
  const counts = async (max: number) =>
    (await node.replicator.figures.tagStates("team", max)).map(({ value, states }) => [
      value,
      states.pending,
      states.crashing,
    ]);
  for (const isFolded of [false, true]) {
    if (isFolded) await node.index.foldAll(node.kv);
    expect(await counts(2)).toEqual([
      [undefined, 3, 1],
      ["a", 1, 0],
      ["b", 1, 1],
    ]);
    expect(await counts(9)).toHaveLength(4);
  }
});

test("counters of tags without jobs are removed", async () => {
  const id = await addJob("a", { team: "billing" });
  await fail(id, "one.example");
  await node.index.foldAll(node.kv);
  await node.replicator.commands.cancel(id, { userName: null });
  await node.index.foldAll(node.kv);
  const counters = async () => {
    const lists = ["tag", "tag-failing", "tag-crashing"];
    const pages = await node.kv.read((tx) =>
      Promise.all(lists.map((list) => tx.getRangePage(SUBSPACES.replicator.range([52, list])))),
    );
    return pages.map(({ entries }) => entries.length);
  };
  expect(await counters()).toEqual([2, 2, 2]);
  await node.replicator.figures.forgetZeros();
  expect(await counters()).toEqual([0, 0, 0]);
});
