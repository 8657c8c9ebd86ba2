/** `run_on`: placement of jobs, of the watchers of parked jobs, and of rules. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { Utf8Text } from "../../src/base/index.ts";
import { createSystemRuntime } from "../../src/host/index.ts";
import type { HeldJob, Labels, WorkerId } from "../../src/jobs/index.ts";
import { KeyValueStore, MemoryEngine } from "../../src/kv/index.ts";
import {
  documentView,
  parseReplication,
  REPLICATION_JOB_TYPE,
} from "../../src/replicator/index.ts";
import { SOURCE_WATCH_TYPE } from "../../src/replicator/job-watching/parked-jobs.ts";
import { jobOutcome } from "../../src/replicator/jobs/job-data.ts";
import { decodeJob, encodeProgress } from "../../src/replicator/jobs/job-data-record.ts";
import { RULE_TYPE } from "../../src/replicator/jobs/rule-jobs.ts";
import { NodeStore } from "../../src/replicator/nodes/node-store.ts";
import { ParkedJobsWaking } from "../../src/replicator/parking/parked-jobs-waking.ts";
import { watchedPlace } from "../../src/replicator/request/watched-place.ts";
import { SUBSPACES } from "../../src/server/layout.ts";
import { ALL_JOB_TYPES } from "../../src/server/node-parts.ts";
import { composeNode } from "../support/compose-node.ts";
import { ADMIN } from "../support/open-node.ts";

const ANN = { userName: "ann", isAdmin: true };
const FOLLOW = { source: "http://far.example/db", target: "copy", continuous: true };
const REASON = /^No running node has the label site:b; /;

let node: ReturnType<typeof open>;

function open(isNewest = true) {
  const runtime = createSystemRuntime();
  const kv = new KeyValueStore({ runtime, engine: new MemoryEngine({ runtime }) });
  const format = { includes: async () => isNewest };
  return { ...composeNode({ runtime, kv, format }), kv };
}

beforeEach(async () => {
  node = open();
  await node.replicator.prepare();
});
afterEach(() => node.kv.close());

function start(runOn: unknown): Promise<string> {
  return node.replicator.start(parseReplication({ ...FOLLOW, run_on: runOn }), ANN);
}

function register(labels: Labels): Promise<WorkerId> {
  const facts = { node: "n", processId: "1", types: ALL_JOB_TYPES, leaseMs: 60_000, labels };
  return node.kv.transact(async (tx) => node.jobs.workers.register(tx, facts).id);
}

async function accept(worker: WorkerId): Promise<HeldJob | undefined> {
  const acceptance = await node.kv.transact((tx) =>
    node.jobs.accept(tx, REPLICATION_JOB_TYPE, { dueBySec: 2 ** 35, countMax: 1, worker }),
  );
  if (acceptance.kind === "accepted") return acceptance.held[0];
  acceptance.enqueued.cancel();
  return undefined;
}

const stored = (type: string, id: string) => node.kv.read((tx) => node.jobs.get(tx, { type, id }));

/** Returns the job's state, the cause of its delay, and its error in `_scheduler`. */
async function shown(id: string) {
  const entry = await node.replicator.find(id);
  if (entry === undefined) throw new Error("The job is there");
  const [measure] = await node.replicator.measures.of([entry]);
  const [listed] = [...(await node.replicator.lists.entries([id])).values()];
  expect(listed?.isUnplaced).toBe(entry.isUnplaced);
  const { state, info } = documentView(entry, "http://here/");
  const { error } = info as { readonly error?: string };
  return { state, heldBackBy: measure?.heldBackBy, error };
}

test("a job reports that no running node has the labels in its `run_on`", async () => {
  const id = await start(["site:b"]);
  const unplaced = { state: "pending", heldBackBy: "placement" };
  expect(await shown(id)).toMatchObject(unplaced);
  expect((await shown(id)).error).toMatch(/^no_node: No running node has the label site:b; /);
  const other = await register(["site:a"]);
  expect(await accept(other)).toBe(undefined);
  expect(await shown(id)).toMatchObject(unplaced);
  const worker = await register(["site:a", "site:b"]);
  expect(await shown(id)).toEqual({ state: "pending", heldBackBy: "slot", error: undefined });
  // The only node with both labels is draining, so it accepts no jobs.
  const store = new NodeStore(SUBSPACES.replicator);
  await node.kv.transact(async (tx) => {
    store.report(tx, "p", {
      ...{ node: "n", processId: "1", version: "1", worker, slots: 1, runningCount: 0 },
      ...{ isDraining: true, startedMs: 0, reportedMs: 0, hosts: [] },
      ...{ memoryBytes: 1, eventLoopDelayMs: 1 },
    });
    await store.setDraining(tx, "p", true);
  });
  expect(await shown(id)).toMatchObject(unplaced);
  expect(await node.kv.read((tx) => node.replicator.nodeLabels.unplacedCount(tx, 2 ** 35))).toBe(1);
});

test("a request that changes only `run_on` moves the job and keeps its ids", async () => {
  const id = await start(["site:a"]);
  const before = await node.replicator.find(id);
  const [a, b] = [await register(["site:a"]), await register(["site:b"])];
  expect(await start(["site:b", "site:b"])).toBe(id);
  const after = await node.replicator.find(id);
  expect(after?.data).toEqual({
    ...before?.data,
    replication: { ...before?.data.replication, runOn: ["site:b"] },
  });
  expect(await accept(a)).toBe(undefined);
  const held = (await accept(b)) as HeldJob;
  const watch = await node.kv.transact((tx) => node.jobs.watchHeld(tx, held));
  await start(undefined);
  await watch.fired();
  expect(await node.kv.read((tx) => node.jobs.labelsOf(tx, held))).toEqual([]);
});

test("a parked job is watched by a node with the labels in its `run_on`, and is woken when `run_on` changes", async () => {
  const id = await start(["site:b"]);
  const held = (await accept(await register(["site:b"]))) as HeldJob;
  const job = await stored(REPLICATION_JOB_TYPE, id);
  if (job === undefined) throw new Error("The job is there");
  const data = decodeJob(job);
  const place = watchedPlace(node.runtime.digests, data.replication as never);
  if (place === undefined) throw new Error("The source can be watched");
  await node.kv.transact(async (tx) => {
    await node.jobs.resubmit(tx, held, 2 ** 34);
    await node.jobs.finish(tx, held, encodeProgress({ ...data, ...jobOutcome("parked") } as never));
    await node.parked.add(tx, id, [{ ...place, updateSequence: "0" }]);
  });
  expect((await stored(SOURCE_WATCH_TYPE, place.source))?.labels).toEqual(["site:b"]);
  const unlabelled = parseReplication(FOLLOW);
  expect(watchedPlace(node.runtime.digests, unlabelled)?.source).not.toBe(place.source);

  // A change of the source makes the job due on nodes with its labels.
  await new ParkedJobsWaking(node, place.source).wake([id]);
  expect(await stored(REPLICATION_JOB_TYPE, id)).toMatchObject({ labels: ["site:b"] });
  await node.kv.transact(async (tx) => {
    const parked = encodeProgress({ ...data, ...jobOutcome("parked") } as never);
    await node.jobs.resubmit(tx, held, 2 ** 34, parked);
    await node.parked.add(tx, id, [{ ...place, updateSequence: "0" }]);
  });

  await start(["site:c"]);
  const moved = await stored(REPLICATION_JOB_TYPE, id);
  expect(moved?.labels).toEqual(["site:c"]);
  expect(moved?.scheduledAtSec).toBeLessThan(2 ** 33);
  expect(await node.kv.read((tx) => node.parked.among(tx, [id]))).toEqual(new Set());
});

test("a parked job reports that no running node has the labels in its `run_on`", async () => {
  const id = await start(["site:b"]);
  await node.kv.transact(async (tx) => {
    const job = await node.jobs.get(tx, { type: REPLICATION_JOB_TYPE, id });
    const data = { ...decodeJob(job as never), ...jobOutcome("parked") } as never;
    await node.jobs.resubmit(tx, job as never, 2 ** 34, encodeProgress(data));
  });
  expect(await shown(id)).toMatchObject({ state: "running", heldBackBy: "placement" });
  await register(["site:b"]);
  expect(await shown(id)).toEqual({ state: "running", heldBackBy: undefined, error: undefined });
});

test("a rule is followed by a node with the labels in its `run_on`, and `last_error` reports if no node has these labels", async () => {
  const owner = { userName: "ann", vouched: undefined, wasAdmin: true };
  const rule = { source: "http://far.example/", target: "{db}", run_on: ["site:b"] };
  await node.replicator.rules.put("backup", rule, owner as never);
  await register([]);
  expect((await stored(RULE_TYPE, "backup"))?.labels).toEqual(["site:b"]);
  const failure = async () => (await node.replicator.rules.get("backup"))?.summary.failure;
  expect(await failure()).toMatchObject({
    error: "no_node",
    reason: expect.stringMatching(REASON),
  });
  expect([...(await node.replicator.rules.failures()).keys()]).toEqual(["backup"]);
  await node.replicator.rules.put("backup", { ...rule, run_on: [] }, owner as never);
  expect((await stored(RULE_TYPE, "backup"))?.labels).toEqual([]);
  expect(await failure()).toBe(undefined);
});

test("`run_on` is rejected while the store has an older format without labels", async () => {
  const older = open(false);
  const document = JSON.stringify({ ...FOLLOW, run_on: ["site:b"], owner: null });
  const reason = expect.stringMatching(/^`run_on` requires a newer format of the store; run/);
  const { databases, kv, replicator } = older;
  await replicator.prepare();
  await kv.transact((tx) => databases.create(tx, "_replicator"));
  const outcome = await kv.transact(async (tx) => {
    const database = await databases.open(tx, "_replicator");
    const edit = { mode: "interactive", id: "d", parent: undefined, deleted: false } as const;
    const body = Utf8Text.of(document);
    return database.write(tx, { ...edit, body, attachments: [] }, ADMIN);
  });
  expect(outcome).toMatchObject({ error: "forbidden", reason });
  const replication = parseReplication(JSON.parse(document));
  await expect(replicator.start(replication, ANN)).rejects.toMatchObject({ reason });
  const rule = { source: "local", target: "copy-{db}", databases: ["a"], run_on: ["site:b"] };
  await expect(replicator.rules.put("r", rule, ANN as never)).rejects.toMatchObject({ reason });
  await replicator.rules.put("r", { ...rule, run_on: [] }, ANN as never);
  await kv.close();
});
