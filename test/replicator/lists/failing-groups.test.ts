/**
 * Failing jobs, grouped by their last failure. The groups contain every failing job, and a group's
 * filter finds exactly the jobs of the group.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createSystemRuntime } from "../../../src/host/index.ts";
import { KeyValueStore, MemoryEngine } from "../../../src/kv/index.ts";
import {
  type JobFilter,
  NEVER_SEC,
  parseReplication,
  REPLICATION_JOB_TYPE,
} from "../../../src/replicator/index.ts";
import { type Failing, failingAfter } from "../../../src/replicator/jobs/failing.ts";
import { jobOutcome } from "../../../src/replicator/jobs/job-data.ts";
import { decodeJob, encodeProgress } from "../../../src/replicator/jobs/job-data-record.ts";
import { composeNode } from "../../support/compose-node.ts";
import { countingEngine } from "../../support/kv/counting-engine.ts";

const JOBS = 600;
const CLASSES = ["unauthorized", "timeout"] as const;
const SIDES = ["source", "target", undefined] as const;
const HOSTS = ["example.com", "example.com:5984", "example.com.net", "[::1]:5984", undefined];

let node: ReturnType<typeof open>;
const failures = new Map<string, Failing>();

function open() {
  const runtime = createSystemRuntime();
  const { engine, counts } = countingEngine(new MemoryEngine({ runtime }));
  const kv = new KeyValueStore({ runtime, engine });
  return { ...composeNode({ runtime, kv }), kv, counts };
}

/**
 * Four of every five jobs fail, and two thirds of the failures have the same host. The last job is
 * never due.
 */
beforeAll(async () => {
  node = open();
  await node.replicator.prepare();
  for (let n = 0; n < JOBS; n++) {
    const replication = parseReplication({ source: "a", target: `t${n}`, continuous: true });
    const id = await node.replicator.start(replication, { userName: "ann", isAdmin: true });
    if (n % 5 > 0) await fail(id, n);
  }
});
afterAll(() => node.kv.close());

async function fail(id: string, n: number): Promise<void> {
  const isCommon = n % 3 > 0;
  const cause = {
    class: isCommon ? "unauthorized" : (CLASSES[n % 2] ?? "timeout"),
    phase: undefined,
    side: isCommon ? "source" : SIDES[(n % 7) % 3],
    host: isCommon ? "example.com:5984" : HOSTS[(n % 11) % 5],
  } as const;
  const failing = failingAfter(undefined, { error: "e", reason: `r${n}` }, cause, 9000 - n);
  failures.set(id, failing);
  const name = { type: REPLICATION_JOB_TYPE, id };
  await node.kv.transact(async (tx) => {
    const job = await node.jobs.get(tx, name);
    if (job === undefined) throw new Error("The job is there");
    const data = { ...decodeJob(job), ...jobOutcome("crashing", failing), failing };
    await node.jobs.resubmit(tx, name, n === JOBS - 1 ? NEVER_SEC : 9000 - n, encodeProgress(data));
  });
}

const ALL = { skip: 0, limit: 1000 };
const idsOf = (matches: (failing: Failing) => boolean): string[] =>
  [...failures].filter(([, failing]) => matches(failing)).map(([id]) => id);

async function listed(filter: JobFilter): Promise<string[]> {
  const ids: string[] = [];
  for await (const { jobId } of node.replicator.lists.all(filter)) ids.push(jobId);
  return ids;
}

describe("groups of failing jobs", () => {
  test("contain every failing job, and begin with the largest group", async () => {
    const { groups, total, jobCount } = await node.replicator.failing.page(ALL);
    expect([total, jobCount]).toEqual([groups.length, failures.size]);
    expect(groups[0]).toMatchObject({ class: "unauthorized", host: "example.com:5984" });
    const counts = groups.map(({ count }) => count);
    expect(counts).toEqual(counts.toSorted((left, right) => right - left));
    for (const { class: failureClass, side, host, count, example, failing } of groups) {
      const ids = idsOf(
        (one) => one.class === failureClass && one.side === side && one.host === host,
      );
      expect(ids).toHaveLength(count);
      expect(ids).toContain(example.jobId);
      expect(failing.sinceMs).toBe(Math.min(...ids.map((id) => failures.get(id)?.sinceMs ?? 0)));
    }
  });

  test("contain the jobs that a filter by the group's class, side and host finds", async () => {
    const { groups } = await node.replicator.failing.page(ALL);
    expect(groups.length).toBeGreaterThan(15);
    for (const { class: error, side, host, count } of groups) {
      const isPort = host?.includes(":59") ?? true;
      const filter = { error, side: side ?? "-", host: host ?? "-" } as const;
      const ids = idsOf(
        (one) =>
          one.class === error &&
          one.side === side &&
          (one.host === host || (!isPort && one.host === `${host}:5984`)),
      );
      if (isPort) expect(ids).toHaveLength(count);
      expect(await listed(filter)).toEqual(ids.toSorted());
      expect((await node.replicator.lists.page({ filter, limit: 1 })).total).toBe(ids.length);
    }
  });

  test("report when their first job that is not paused is due", async () => {
    const { groups } = await node.replicator.failing.page(ALL);
    const [largest] = groups;
    const last = (largest?.failing.sinceMs ?? 0) * 1000;
    expect(largest?.example.scheduledAtSec).toBe(NEVER_SEC);
    expect(largest?.nextTryMs).toBeGreaterThan(last);
    expect(largest?.nextTryMs).toBeLessThan(last + 10_000);
  });

  test("are paginated", async () => {
    const all = await node.replicator.failing.page(ALL);
    const page = await node.replicator.failing.page({ skip: 2, limit: 3 });
    expect(page).toEqual({ ...all, groups: all.groups.slice(2, 5) });
  });

  test("cost the same number of reads for many jobs as for few", async () => {
    const before = node.counts.readCount;
    const { groups } = await node.replicator.failing.page({ skip: 0, limit: 1 });
    expect(groups[0]?.count).toBeGreaterThan(300);
    expect(node.counts.readCount - before).toBeLessThan(150);
  });
});

test.each<[JobFilter, (failing: Failing) => boolean]>([
  [{ host: "EXAMPLE.com" }, ({ host = "" }) => /^example\.com(:5984)?$/.test(host)],
  [{ host: "example.com:5984" }, ({ host }) => host === "example.com:5984"],
  [{ host: "example.com:" }, ({ host }) => host === "example.com"],
  [{ host: "[::1]:" }, () => false],
  [{ host: "[::1]" }, ({ host }) => host === "[::1]:5984"],
  [{ host: "-" }, ({ host }) => host === undefined],
  [{ host: "example" }, () => false],
  [{ side: "target" }, ({ side }) => side === "target"],
  [{ side: "-", error: "timeout" }, (one) => one.side === undefined && one.class === "timeout"],
  [{ host: "example.com", failing: true }, ({ host = "" }) => /^example\.com(:|$)/.test(host)],
  [{ host: "example.com", failing: false }, () => false],
  [
    { host: "example.com", reason: "r7" },
    (one) => /r7/.test(one.reason) && /com(:|$)/.test(one.host ?? ""),
  ],
])("the filter %j finds exactly the jobs that it describes", async (filter, matches) => {
  expect(await listed(filter)).toEqual(idsOf(matches).toSorted());
});
