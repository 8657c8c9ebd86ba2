/**
 * Old bodies are removed: periodically after their retention time, and immediately when their
 * database is compacted.
 */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type Clock, Utf8Text } from "../../src/base/index.ts";
import { AttachmentStore, DatabaseRegistry } from "../../src/databases/index.ts";
import { Subspace } from "../../src/kv/index.ts";
import { ReclaimRounds } from "../../src/server/reclaim-rounds.ts";
import { Reclaimer, type ReclaimerParts } from "../../src/server/reclaimer.ts";
import { ADMIN, openNode } from "../support/open-node.ts";

const KEEP_MS = 3_600_000;
const TEN_MINUTES_MS = 600_000;

let node: Awaited<ReturnType<typeof openNode>>;
let databases: DatabaseRegistry;
let parts: ReclaimerParts;
let reclaimer: Reclaimer;
let nowMs: number;
/** Wakes the sleeping reclaimer. It is `undefined` while the reclaimer works. */
let wake: (() => void) | undefined;
let onceAsleep: () => void;
let stopping: AbortController;
let running: Promise<void>;

const sleep: Clock["sleep"] = (durationMs, signal) => {
  // A task yields.
  if (durationMs === 0) return node.runtime.clock.sleep(0, signal);
  return new Promise((resolve, reject) => {
    signal?.addEventListener("abort", () => reject(signal.reason));
    wake = resolve;
    onceAsleep();
  });
};

/** Advances time while the reclaimer sleeps. Resolves when the reclaimer sleeps again. */
async function pass(durationMs: number): Promise<void> {
  if (wake === undefined) await new Promise<void>((resolve) => (onceAsleep = resolve));
  nowMs += durationMs;
  const asleepAgain = new Promise<void>((resolve) => (onceAsleep = resolve));
  wake?.();
  await asleepAgain;
}

beforeEach(async () => {
  nowMs = 1_700_000_000_000;
  wake = undefined;
  onceAsleep = () => {};
  node = await openNode();
  const runtime = {
    ...node.runtime,
    clock: { ...node.runtime.clock, nowMs: () => nowMs, sleep },
  };
  const { kv } = node;
  const root = Subspace.fromTuple(["old bodies"]);
  databases = new DatabaseRegistry({ runtime, root, keepOldBodiesMs: () => KEEP_MS });
  const attachments = new AttachmentStore({ runtime, kv });
  parts = { runtime, kv, databases, attachments, keepOldBodiesMs: () => KEEP_MS };
  reclaimer = new Reclaimer(parts);
  for (const name of ["films", "books"]) {
    await kv.transact((tx) => databases.create(tx, name));
    await write(name);
  }
  stopping = new AbortController();
  running = reclaimer.run(stopping.signal);
});

afterEach(async () => {
  const over = new Error("The test is over");
  stopping.abort(over);
  // If the reclaimer is working when the test ends, the promise rejects with the abort reason.
  await running.catch((error: unknown) => {
    if (error !== over) throw error;
  });
  await node.stop();
  await node.kv.close();
});

const first = new Map<string, string>();

/** Writes two revisions of one document. */
async function write(name: string): Promise<void> {
  let parent: string | undefined;
  for (const body of ['{"n":1}', '{"n":2}']) {
    const edit = {
      mode: "interactive",
      id: "a",
      parent,
      deleted: false,
      body: Utf8Text.of(body),
      attachments: [],
    } as const;
    const outcome = await node.kv.transact(async (tx) =>
      (await databases.open(tx, name)).write(tx, edit, ADMIN),
    );
    if (outcome.kind !== "written") throw new Error(outcome.kind);
    if (parent === undefined) first.set(name, outcome.revision);
    parent = outcome.revision;
  }
}

const exists = (name: string): Promise<boolean> =>
  node.kv.read(async (tx) => {
    const database = await databases.open(tx, name);
    const found = await database.documents.readRevision(tx, "a", first.get(name) as string, {
      superseded: true,
    });
    return found.length > 0;
  });

const swept = (database: string) =>
  node.event("databases.swept", (fields) => fields.database === database);

test("compacting a database removes its superseded rows immediately, and no rows of other databases", async () => {
  reclaimer.start("films");
  expect(reclaimer.isRunning("films")).toBe(true);
  expect(await swept("films")).toEqual({ database: "films", bodyCount: 1 });
  expect([await exists("films"), await exists("books")]).toEqual([false, true]);
});

test("superseded rows are removed after their retention time", async () => {
  await pass(KEEP_MS / 2);
  expect([await exists("films"), await exists("books")]).toEqual([true, true]);
  await pass(KEEP_MS);
  expect([await exists("films"), await exists("books")]).toEqual([false, false]);
});

test("the reclaimer skips a database that contains nothing to reclaim", async () => {
  await node.kv.transact((tx) => databases.create(tx, "empty"));
  const reclaim = vi.spyOn(parts.attachments, "reclaim");
  await pass(0);
  await pass(2 * KEEP_MS);
  await pass(0);
  const worked = reclaim.mock.calls.map(([database]) => database.name);
  expect(worked).toEqual(["books", "films"]);
  await pass(2 * KEEP_MS);
  await pass(0);
  expect(reclaim).toHaveBeenCalledTimes(2);
});

test("the reclaimer skips a database that no longer exists", async () => {
  await node.kv.transact((tx) => databases.remove(tx, "films"));
  reclaimer.start("films");
  reclaimer.start("books");
  expect(await swept("books")).toMatchObject({ bodyCount: 1 });
});

test("a node does not scan a database immediately after its start, even if scans are due", async () => {
  await pass(0);
  nowMs += 2 * KEEP_MS;
  const asleep = new Promise<void>((resolve) => (onceAsleep = resolve));
  const starting = new Reclaimer(parts).run(stopping.signal);
  await asleep;
  expect([await exists("films"), await exists("books")]).toEqual([true, true]);
  await pass(0);
  expect([await exists("films"), await exists("books")]).toEqual([false, false]);
  stopping.abort(new Error("The test is over"));
  await starting;
});

test("the nodes together scan each database once per round, and a round starts ten minutes after the start of the previous one", async () => {
  await pass(0);
  for (let number = 100; number < 350; number++) {
    await node.kv.transact((tx) => databases.create(tx, `db-${number}`));
  }
  const clock = { ...node.runtime.clock, nowMs: () => nowMs };
  const nodes = [1, 2].map(() => new ReclaimRounds({ runtime: { clock }, kv: node.kv, databases }));
  const { signal } = stopping;
  const takeAll = async (): Promise<string[]> => {
    const taken: string[] = [];
    for (let turn = 0; ; turn++) {
      const page = await (nodes[turn % 2] as ReclaimRounds).take(signal);
      if (page.length === 0) return taken;
      expect(page.length).toBeLessThanOrEqual(100);
      taken.push(...page);
    }
  };
  expect(await takeAll()).toEqual([]);
  nowMs += TEN_MINUTES_MS;
  const all = await node.kv.read((tx) => databases.names(tx, {}));
  expect(all).toHaveLength(252);
  expect(await takeAll()).toEqual(all);
  nowMs += TEN_MINUTES_MS - 1;
  expect(await takeAll()).toEqual([]);
  nowMs += 1;
  expect(await takeAll()).toEqual(all);
  // Set the clock back far. The reclaimer must not wait until the clock has caught up.
  nowMs -= 24 * KEEP_MS;
  expect(await takeAll()).toEqual(all);
});

test("only one of several concurrent nodes claims a given database", async () => {
  await pass(0);
  nowMs += TEN_MINUTES_MS;
  const clock = { ...node.runtime.clock, nowMs: () => nowMs };
  const rounds = new ReclaimRounds({ runtime: { clock }, kv: node.kv, databases });
  const taken = await Promise.all([1, 2, 3].map(() => rounds.take(stopping.signal)));
  expect(taken.flat().sort()).toEqual(["books", "films"]);
});
