/** Metrics of jobs: exact totals, and details of the jobs with the longest lags. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { Utf8Text } from "../../../src/base/index.ts";
import { createSystemRuntime } from "../../../src/host/index.ts";
import { KeyValueStore, MemoryEngine } from "../../../src/kv/index.ts";
import { parseReplication, REPLICATION_JOB_TYPE } from "../../../src/replicator/index.ts";
import { type Failing, failingAfter, NO_PLACE } from "../../../src/replicator/jobs/failing.ts";
import { jobOutcome } from "../../../src/replicator/jobs/job-data.ts";
import { decodeJob, encodeProgress } from "../../../src/replicator/jobs/job-data-record.ts";
import { SUBSPACES } from "../../../src/server/layout.ts";
import { composeNode } from "../../support/compose-node.ts";

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

function addJob(target: string, userName = "ann"): Promise<string> {
  const replication = parseReplication({ source: "http://far.example/db", target });
  return node.replicator.start(replication, { userName, isAdmin: true });
}

async function setFailing(id: string, failing: Failing | undefined): Promise<void> {
  await node.kv.transact(async (tx) => {
    const job = await node.jobs.get(tx, { type: REPLICATION_JOB_TYPE, id });
    if (job === undefined) throw new Error("The job is there");
    const outcome = failing === undefined ? jobOutcome("pending") : jobOutcome("crashing", FAILURE);
    const data = { ...decodeJob(job), ...outcome, failing };
    await node.jobs.resubmit(tx, job, 2 ** 33, encodeProgress(data));
  });
}

const failingAt = (host: string | undefined): Failing =>
  failingAfter(undefined, FAILURE, { ...NO_PLACE, class: "unreachable", host }, NOW_MS);

test("a failing job is counted under the host of its last failure, and under no host after it recovers", async () => {
  const ids = await Promise.all(["a", "b", "c"].map((name) => addJob(name)));
  for (const id of ids) await setFailing(id, failingAt("one.example"));
  await setFailing(ids[0] as string, failingAt("two.example"));
  await setFailing(ids[1] as string, failingAt(undefined));
  const failing = async () => (await node.replicator.figures.read()).failing;
  expect(await failing()).toEqual([
    { class: "unreachable", host: null, jobCount: 1 },
    { class: "unreachable", host: "one.example", jobCount: 1 },
    { class: "unreachable", host: "two.example", jobCount: 1 },
  ]);
  await node.index.foldAll(node.kv);
  await setFailing(ids[2] as string, undefined);
  await node.replicator.commands.cancel(ids[0] as string, { userName: null });
  expect(await failing()).toEqual([{ class: "unreachable", host: null, jobCount: 1 }]);

  const counters = async () => {
    const range = SUBSPACES.replicator.range([52, "cause"]);
    return (await node.kv.read((tx) => tx.getRangePage(range))).entries.length;
  };
  await node.index.foldAll(node.kv);
  expect(await counters()).toBe(3);
  await node.replicator.figures.forgetZeros();
  expect(await counters()).toBe(1);
  expect(await failing()).toHaveLength(1);
});

test("the metrics contain the jobs with the longest lags, and the longest lag of each group", async () => {
  const ids: string[] = [];
  for (let n = 0; n < 30; n++) ids.push(await addJob(`t${n}`, n % 2 === 0 ? "ann" : "bob"));
  for (const [n, id] of ids.entries()) {
    const backlog = { sinceMs: NOW_MS - (n + 1) * 1000, pending: 1, seenMs: NOW_MS };
    await node.kv.transact((tx) => node.backlogs.set(tx, id, backlog));
  }
  await addJob("current", "carl");
  const { jobLags, groupLags, behindCount } = await node.replicator.figures.read();
  expect(behindCount).toBe(30);
  expect(jobLags).toHaveLength(20);
  const nameOf = async (id = "") => (await node.replicator.find(id))?.data.replicationId;
  expect(jobLags[0]).toEqual({ name: await nameOf(ids[29]), lagSec: 30 });
  expect(jobLags.at(-1)).toEqual({ name: await nameOf(ids[10]), lagSec: 11 });
  expect(groupLags).toEqual([
    { name: "user:bob", lagSec: 30 },
    { name: "user:ann", lagSec: 29 },
  ]);
  await node.replicator.commands.pause(ids[29] as string, { userName: null });
  const paused = await node.replicator.figures.read();
  expect(paused.jobLags[0]).toEqual({ name: await nameOf(ids[28]), lagSec: 29 });
  expect(paused.groupLags[0]).toEqual({ name: "user:ann", lagSec: 29 });
});

test("the metrics name documents by database and id, and use each replicator database as a group", async () => {
  for (const name of ["_replicator", "team/_replicator"]) {
    await node.kv.transact((tx) => node.databases.create(tx, name));
    await node.kv.transact(async (tx) => {
      const database = await node.databases.open(tx, name);
      const body = Utf8Text.of('{"source":"http://far.example/db","target":"t"}');
      const edit = { mode: "interactive", id: "copy|1", parent: undefined, body } as const;
      const admin = { userName: null, roles: ["_admin"], isAdmin: true };
      await database.write(tx, { ...edit, deleted: false, attachments: [] }, admin);
    });
  }
  let ageSec = 1;
  for await (const { jobId } of node.replicator.lists.all({})) {
    const backlog = { sinceMs: NOW_MS - ageSec++ * 1000, pending: 1, seenMs: NOW_MS };
    await node.kv.transact((tx) => node.backlogs.set(tx, jobId, backlog));
  }
  const { jobLags, groupLags } = await node.replicator.figures.read();
  const names = ["_replicator", "team/_replicator"];
  expect(groupLags.map(({ name }) => name).toSorted()).toEqual(names);
  expect(jobLags.map(({ name }) => name).toSorted()).toEqual(names.map((name) => `${name}/copy|1`));
});
