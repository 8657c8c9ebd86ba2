/** The history of a job's runs. It includes runs of dead nodes, and is removed with the job. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { createSystemRuntime } from "../../../src/host/index.ts";
import { KeyValueStore, MemoryEngine } from "../../../src/kv/index.ts";
import { parseReplication, REPLICATION_JOB_TYPE } from "../../../src/replicator/index.ts";
import { HeldReplication } from "../../../src/replicator/run/held-replication.ts";
import { SUBSPACES } from "../../../src/server/layout.ts";
import { composeNode } from "../../support/compose-node.ts";

const ID = "0123456789abcdef0123456789abcdef+continuous";
const REQUESTER = { userName: "ann", isAdmin: true };
const REPLICATION = parseReplication({ source: "a", target: "b", continuous: true });

let node: ReturnType<typeof open>;
let jobId: string;

function open() {
  const runtime = createSystemRuntime();
  const kv = new KeyValueStore({ runtime, engine: new MemoryEngine({ runtime }) });
  return { ...composeNode({ runtime, kv }), kv };
}

beforeEach(async () => {
  node = open();
  await node.replicator.prepare();
  jobId = await node.replicator.start(REPLICATION, REQUESTER);
});
afterEach(() => node.kv.close());

async function accept(): Promise<HeldReplication> {
  const wanted = { dueBySec: 2 ** 33, countMax: 1 };
  const accepted = await node.kv.transact((tx) =>
    node.jobs.accept(tx, REPLICATION_JOB_TYPE, wanted),
  );
  if (accepted.kind !== "accepted") throw new Error("The job is due");
  const [held] = accepted.held;
  const [job] = accepted.jobs;
  if (held === undefined || job === undefined) throw new Error("There is one");
  return new HeldReplication(node, held, job);
}

/** Records a run that writes this many documents and then stops. */
async function run(docsWritten: number): Promise<void> {
  const job = await accept();
  await job.begin({ id: ID });
  job.noteCounts({
    missingChecked: 9,
    missingFound: 8,
    docsRead: 7,
    docsWritten,
    docWriteFailures: 0,
    docsLeftOut: 0,
    bulkGetAttempts: 0,
    bulkGetDocs: 0,
    bytes: 500,
  });
  await job.end({ kind: "stopped" });
}

const runs = () => node.replicator.measures.runs(jobId);

test("the history records each run's times, outcome and statistics", async () => {
  await run(5);
  const [first, ...others] = await runs();
  expect(others).toEqual([]);
  expect(first).toMatchObject({
    cause: "stopped",
    counts: { docsWritten: 5, missingChecked: 9, bytes: 500 },
    checkpoint: 0,
  });
  expect(first?.endMs).toBeGreaterThanOrEqual(first?.startMs ?? Number.POSITIVE_INFINITY);
});

test("the history records why a run failed before its replication was known", async () => {
  const job = await accept();
  const failure = { error: "nxdomain", reason: "no such host" };
  const cause = { class: "dns", phase: undefined, side: undefined, host: undefined } as const;
  await job.end({ kind: "crashed", failure, cause, unreachable: undefined });
  expect(await runs()).toMatchObject([{ cause: "crashed", reason: "nxdomain: no such host" }]);
});

test("the history records the job's backlog at the end of a run", async () => {
  const nowMs = node.runtime.clock.nowMs();
  const end = async (sinceMs: number | undefined) => {
    const job = await accept();
    await job.begin({ id: ID });
    job.noteBehind(sinceMs);
    await job.end({ kind: "stopped" });
  };
  await run(1);
  await end(nowMs - 90_000);
  await end(undefined);
  const lags = (await runs()).map(({ lagSec }) => lagSec);
  expect(lags).toEqual([0, expect.any(Number), undefined]);
  expect(lags[1]).toBeGreaterThanOrEqual(90);
});

test("a job that is accepted and returned without a run is not recorded", async () => {
  await (await accept()).end({ kind: "stopped" });
  expect(await runs()).toEqual([]);
});

test("the history keeps the last fifty runs, newest first", async () => {
  for (let count = 1; count <= 53; count++) await run(count);
  const kept = await runs();
  const newestFirst = Array.from({ length: 50 }, (_, n) => 53 - n);
  expect(kept.map(({ counts }) => counts?.docsWritten)).toEqual(newestFirst);
  const page = await node.kv.read((tx) =>
    tx.getRangePage(SUBSPACES.replicator.range([23, jobId]), { limit: 100 }),
  );
  expect(page.entries.length).toBe(50);
});

test("a run whose node died is recorded once, as lost", async () => {
  const lost = await accept();
  await lost.begin({ id: ID });
  const last = await node.kv.read((tx) => node.jobs.lastActivity(tx, REPLICATION_JOB_TYPE));
  if (last === undefined) throw new Error("A job runs");
  await node.kv.transact((tx) => node.jobs.requeueSilent(tx, REPLICATION_JOB_TYPE, last, 1));
  await run(1);
  await run(2);
  expect((await runs()).map(({ cause }) => cause)).toEqual(["stopped", "stopped", "lost"]);
  expect((await runs()).at(-1)).toMatchObject({ counts: undefined });
});

test("removing a job removes its runs and its backlog", async () => {
  await run(1);
  const backlog = { sinceMs: 1, pending: 1, seenMs: 1 };
  await node.kv.transact((tx) => node.backlogs.set(tx, jobId, backlog));
  await node.replicator.commands.cancel(jobId, { userName: null });
  await node.index.foldAll(node.kv);
  for (const list of [21, 23, 51]) {
    const range = SUBSPACES.replicator.range([list]);
    const page = await node.kv.read((tx) => tx.getRangePage(range, { limit: 10 }));
    expect(page.entries).toEqual([]);
  }
});
