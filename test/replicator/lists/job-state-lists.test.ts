/**
 * Lists of jobs by state. They combine the queue with the index, which adds little to the cost of
 * each change.
 */
import { afterEach, beforeEach, expect, test } from "vitest";
import { createSystemRuntime } from "../../../src/host/index.ts";
import { type JobName, Jobs } from "../../../src/jobs/index.ts";
import { MemoryEngine, type Transaction } from "../../../src/kv/index.ts";
import { PlainStore } from "../../../src/library/kv-conformance/plain-store.ts";
import {
  NEVER_SEC,
  parseReplication,
  REPLICATION_JOB_TYPE,
  type ReplicationState,
} from "../../../src/replicator/index.ts";
import { jobOutcome, newJobData } from "../../../src/replicator/jobs/job-data.ts";
import { encodeProgress, encodeRequest } from "../../../src/replicator/jobs/job-data-record.ts";
import { composeNode, JOBS_SUBSPACE } from "../../support/compose-node.ts";
import { countingEngine } from "../../support/kv/counting-engine.ts";

const FAILURE = { error: "error", reason: "refused" };
const OUTCOMES = ["pending", "crashing", "completed", "failed"] as const;
const UUIDS = ["a".repeat(32), "b".repeat(32)] as const;
const DUE_SEC = 1;

let node: ReturnType<typeof open>;
beforeEach(async () => {
  node = open();
  await node.replicator.prepare();
});
afterEach(() => node.kv.close());

function open() {
  const runtime = createSystemRuntime();
  const { engine, counts } = countingEngine(new MemoryEngine({ runtime }));
  const kv = new PlainStore({ runtime, engine });
  return { ...composeNode({ runtime, kv }), runtime, kv, counts };
}

function dataOf(number: number, outcome: (typeof OUTCOMES)[number]) {
  const replication = parseReplication({ source: "a", target: `t${number}`, continuous: true });
  const databaseUuid = UUIDS[number % 2] as string;
  const document = { database: "_replicator", databaseUuid, id: String(number).padStart(6, "0") };
  const asked = { replication, refusal: undefined, userName: "ann", document };
  const data = newJobData({ ...asked, replicationId: `r${9_999_999 - number}` }, 1);
  return { ...data, ...jobOutcome(outcome, FAILURE) };
}

async function add(
  tx: Transaction,
  jobs: Jobs,
  number: number,
  { outcome, dueSec }: { readonly outcome: (typeof OUTCOMES)[number]; readonly dueSec: number },
): Promise<JobName> {
  const data = dataOf(number, outcome);
  const name = {
    type: REPLICATION_JOB_TYPE,
    id: `${data.document?.databaseUuid}|${data.document?.id}`,
  };
  const request = encodeRequest(data);
  await jobs.add(tx, name, encodeProgress(data), { request, scheduledAtSec: dueSec });
  return name;
}

/**
 * Adds `count` jobs, which cover all outcomes. One job in nine is running. Returns the shown states
 * by job id.
 */
async function addJobs(count: number): Promise<Map<string, ReplicationState>> {
  const { kv, jobs } = node;
  const states = new Map<string, ReplicationState>();
  const batch = 100;
  for (let from = 0; from < count; from += batch) {
    await kv.transact(async (tx) => {
      for (let number = from; number < Math.min(count, from + batch); number++) {
        const outcome = OUTCOMES[number % 4] as (typeof OUTCOMES)[number];
        const isDue = number % 9 === 0;
        const dueSec = isDue ? DUE_SEC : NEVER_SEC;
        const { id } = await add(tx, jobs, number, { outcome, dueSec });
        states.set(id, isDue ? "running" : outcome);
      }
    });
  }
  const wanted = { dueBySec: DUE_SEC, countMax: count };
  await kv.transact((tx) => jobs.accept(tx, REPLICATION_JOB_TYPE, wanted));
  return states;
}

test.each([
  ["a few, in sorted order", 100],
  ["many, by a scan", 4500],
])("jobs are listed and counted by the states that are shown for them: %s", async (_, count) => {
  const shown = await addJobs(count);
  const asked: ReplicationState[][] = [
    ...(["running", "pending", "crashing", "completed", "failed"] as const).map((one) => [one]),
    ["pending", "running"],
    ["crashing", "pending", "failed"],
  ];
  for (const states of asked) {
    for (const databaseUuid of [undefined, UUIDS[1]]) {
      const filter = { states, ...(databaseUuid === undefined ? {} : { databaseUuid }) };
      const page = await node.replicator.lists.page({ filter, limit: 40, skip: 7 });
      const expected = [...shown.keys()]
        .filter((id) => states.includes(shown.get(id) as ReplicationState))
        .filter((id) => id.startsWith(databaseUuid ?? ""))
        .toSorted();
      expect(page.entries.map(({ jobId }) => jobId)).toEqual(expected.slice(7, 47));
      expect(page.total).toBe(expected.length);
    }
  }
});

test("a list in the order of replication ids contains each job once, except completed and failed jobs", async () => {
  const shown = await addJobs(100);
  const ended: readonly string[] = ["completed", "failed"];
  const active = [...shown.keys()].filter((id) => !ended.includes(shown.get(id) as string));
  const page = await node.replicator.lists.page({ filter: {}, order: "shown-id", limit: 100 });
  const ids = page.entries.map(({ data }) => data.replicationId);
  expect(ids).toEqual(ids.toSorted());
  expect(page.entries.map(({ jobId }) => jobId).toSorted()).toEqual(active.toSorted());
  expect(page.total).toBe(active.length);
});

test("the index and the events add 3 keys for a new job, no keys for its acceptance, and 3 keys for its end", async () => {
  const { kv, counts } = node;
  const writtenBy = async (work: (tx: Transaction) => Promise<unknown>): Promise<number> => {
    const before = counts.writtenCount;
    await kv.transact(work);
    return counts.writtenCount - before;
  };
  const cost = async (jobs: Jobs, number: number) => {
    const first = { outcome: "pending", dueSec: DUE_SEC } as const;
    const added = await writtenBy((tx) => add(tx, jobs, number, first));
    let held: Parameters<Jobs["finish"]>[1] | undefined;
    const accepted = await writtenBy(async (tx) => {
      const wanted = { dueBySec: DUE_SEC, countMax: 1 };
      const acceptance = await jobs.accept(tx, REPLICATION_JOB_TYPE, wanted);
      if (acceptance.kind === "accepted") held = acceptance.held[0];
    });
    const data = encodeProgress(dataOf(number, "completed"));
    const ended = await writtenBy(async (tx) => held && (await jobs.finish(tx, held, data)));
    return [added, accepted, ended] as const;
  };
  const bare = await cost(new Jobs(node.runtime, JOBS_SUBSPACE), 1);
  const indexed = await cost(node.jobs, 2);
  expect(indexed.map((count, index) => count - (bare[index] as number))).toEqual([3, 0, 3]);
});
