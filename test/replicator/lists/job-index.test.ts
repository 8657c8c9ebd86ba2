/**
 * The index of jobs. Changes of jobs are appended as events, and a fold applies the events to the
 * index. The index agrees with the jobs after any sequence of changes.
 */
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createSystemRuntime } from "../../../src/host/index.ts";
import { Jobs } from "../../../src/jobs/index.ts";
import {
  KeyValueStore,
  MemoryEngine,
  packTuple,
  type Subspace,
  type Transaction,
} from "../../../src/kv/index.ts";
import {
  IndexFolder,
  parseReplication,
  REPLICATION_JOB_TYPE,
} from "../../../src/replicator/index.ts";
import type { EndedJob } from "../../../src/replicator/job-lists/job-index.ts";
import { jobOutcome, newJobData } from "../../../src/replicator/jobs/job-data.ts";
import { encodeProgress, encodeRequest } from "../../../src/replicator/jobs/job-data-record.ts";
import { encodeStatus, type JobStatus } from "../../../src/replicator/jobs/job-status.ts";
import { SUBSPACES } from "../../../src/server/layout.ts";
import { composeNode, JOBS_SUBSPACE } from "../../support/compose-node.ts";
import { deferred } from "../../support/deferred.ts";
import { indexProblems } from "../../support/index-problems.ts";
import { History, JOB_STEP, repairAll, type Step } from "../../support/job-history.ts";

function open() {
  const runtime = createSystemRuntime();
  const kv = new KeyValueStore({ runtime, engine: new MemoryEngine({ runtime }) });
  return { ...composeNode({ runtime, kv }), runtime, kv };
}

const ONE = { limit: 1 };

/**
 * Folds `eventCount` pending events into the index: on one node, on two nodes concurrently, or on a
 * node that dies before its commit.
 */
interface Fold {
  readonly folds: "one" | "two" | "dying";
  readonly eventCount: number;
}
type IndexStep = Step | Fold;

const FOLD: fc.Arbitrary<Fold> = fc.record({
  folds: fc.constantFrom("one", "two", "dying"),
  eventCount: fc.integer({ min: 1, max: 8 }),
});
const INDEX_STEP: fc.Arbitrary<IndexStep> = fc.oneof(
  { weight: 4, arbitrary: JOB_STEP },
  { weight: 1, arbitrary: FOLD },
);

type FoldingNode = Pick<ReturnType<typeof open>, "index" | "kv">;

async function fold(
  { folds, eventCount }: Fold,
  own: FoldingNode,
  other: FoldingNode,
): Promise<void> {
  if (folds === "dying") {
    const death = new Error("The node dies");
    const dying = {
      transact: (body: (tx: Transaction) => Promise<unknown>) =>
        own.kv.transact(async (tx) => {
          await body(tx);
          throw death;
        }),
    } as unknown as KeyValueStore;
    await expect(own.index.fold(dying, 1, eventCount)).rejects.toBe(death);
    return;
  }
  const folders = folds === "two" ? [own, other] : [own];
  await Promise.all(folders.map(({ index, kv }) => index.fold(kv, 1, eventCount)));
}

describe("the index of jobs", () => {
  let node: ReturnType<typeof open>;
  beforeEach(async () => {
    node = open();
    await node.replicator.prepare();
  });
  afterEach(() => node.kv.close());

  const problems = () => node.kv.read((tx) => indexProblems(tx, node));

  test("agrees with the jobs after any sequence of changes, however the pending changes are batched", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(INDEX_STEP, { minLength: 1, maxLength: 60 }), async (steps) => {
        const own = open();
        const other = { ...composeNode({ runtime: own.runtime, kv: own.kv }), kv: own.kv };
        await own.replicator.prepare();
        const history = new History(own);
        const first = ["add", "accept", "begin"].flatMap((event) =>
          [0, 1, 2].map((job): IndexStep => ({ event, job, failure: "other" })),
        );
        for (const one of [...first, ...steps]) {
          // A reader that began before the operation still sees the earlier jobs and lists.
          const seenBefore = await own.kv.read(async (tx) => {
            await tx.readVersion();
            await ("folds" in one ? fold(one, own, other) : history.apply(one));
            for (const reader of [own, other]) {
              expect(await own.kv.read((later) => indexProblems(later, reader))).toEqual([]);
            }
            return indexProblems(tx, own);
          });
          expect(seenBefore).toEqual([]);
        }
        await own.kv.close();
      }),
      { numRuns: 40 },
    );
  });

  test("records whether a replication has failed documents", async () => {
    const history = new History(node);
    const happen = (event: string) => history.apply({ event, job: 0, failure: "other" });
    const hasFailures = async () => {
      const page = await node.kv.read((tx) => node.jobs.list(tx, REPLICATION_JOB_TYPE, ONE));
      const id = page.entries[0]?.id ?? "";
      return (await node.kv.read((tx) => node.index.statuses.get(tx, id)))?.hasLeftBehind;
    };
    for (const event of ["add", "accept", "begin", "leave-behind"]) await happen(event);
    expect(await hasFailures()).toBe(true);
    await happen("arrive");
    expect(await hasFailures()).toBe(false);
  });

  test("can be repaired after a node that does not know the index has changed jobs", async () => {
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

  test("is built in pages if the store has none, even by several nodes concurrently", async () => {
    const requester = { userName: "ann", isAdmin: true };
    const replication = (n: number) => parseReplication({ source: "a", target: `b${n}` });
    for (let n = 0; n < 450; n++) await node.replicator.start(replication(n), requester);
    await becomeOlder();
    expect(await problems()).not.toEqual([]);
    const build = () => node.index.build(node.kv);
    await Promise.all([build(), build(), build()]);
    expect(await problems()).toEqual([]);
  });

  test("is removed and rebuilt if its format is older", async () => {
    for (let n = 0; n < 3; n++) await addEnded(n);
    await becomeOlder();
    const older = Array.from({ length: 5000 }, (_, n) => [18, "owner", null, `job${n}`]);
    await node.kv.transact(async (tx) => {
      for (const tuple of older) tx.set(SUBSPACES.replicator.pack(tuple), new Uint8Array());
      tx.set(SUBSPACES.replicator.pack([17, "job0"]), packTuple([2, "[]"]));
      tx.set(SUBSPACES.replicator.pack([20]), packTuple([3, null]));
      tx.set(SUBSPACES.replicator.pack([21, "job0"]), packTuple([1, null, null, 1]));
    });
    await node.index.build(node.kv);
    expect(await problems()).toEqual([]);
    for (const [number, count] of [
      [17, 0],
      [18, 0],
      [20, 0],
      [21, 1],
    ] as const) {
      const begin = SUBSPACES.replicator.pack([number]);
      const range = { begin, end: SUBSPACES.replicator.pack([number + 1]) };
      const page = await node.kv.read((tx) => tx.getRangePage(range));
      expect([number, page.entries.length]).toEqual([number, count]);
    }
  });

  test("receives the rows that its older format lacked", async () => {
    await addEnded(0, "http://couch.example/db");
    await node.index.foldAll(node.kv);
    const row = SUBSPACES.replicator.pack([51, "source", "//db", "job0"]);
    await node.kv.transact(async (tx) => {
      expect(await tx.get(row)).toBeDefined();
      const status = (await node.index.statuses.get(tx, "job0")) as JobStatus;
      const source = status.source.filter((place) => !place.startsWith("//"));
      node.index.statuses.set(tx, "job0", encodeStatus({ ...status, source }));
      tx.clear(row);
      tx.set(SUBSPACES.replicator.pack([53]), packTuple([4, null]));
    });
    await node.index.build(node.kv);
    expect(await problems()).toEqual([]);
  });

  test("is updated by a running node when enough changes are pending", async () => {
    const folder = new IndexFolder(node);
    const stopping = new AbortController();
    const running = folder.run(stopping.signal);
    const foldedId = () => node.kv.read((tx) => node.events.foldedId(tx));
    const before = await foldedId();
    for (let n = 0; n < 249; n++) await addEnded(n);
    expect(await foldedId()).toBe(before);
    const folded = vi.spyOn(node.events, "setFoldedId");
    for (let n = 249; folded.mock.calls.length === 0; n++) await addEnded(n);
    stopping.abort();
    await running;
    expect(await foldedId()).not.toBe(before);
    expect(await problems()).toEqual([]);
  });

  test("is updated by a node that starts while enough changes are pending", async () => {
    for (let n = 0; n < 1000; n++) await addEnded(n);
    const stopping = new AbortController();
    const folded = deferred<void>();
    const fold = node.index.fold.bind(node.index);
    vi.spyOn(node.index, "fold").mockImplementation(async (...asked) => {
      const hasMore = await fold(...asked);
      if (!hasMore) folded.resolve();
      return hasMore;
    });
    const running = new IndexFolder(node).run(stopping.signal);
    await folded.promise;
    stopping.abort();
    await running;
    const [foldedId, lastId] = await node.kv.read((tx) =>
      Promise.all([node.events.foldedId(tx), node.events.lastId(tx)]),
    );
    expect(foldedId).toBe(lastId);
    expect(await problems()).toEqual([]);
  });

  test("is updated in batches, and each batch reads one more event than it applies, to learn whether further events are pending", async () => {
    for (let n = 0; n < 100; n++) await addEnded(n);
    const read = vi.spyOn(node.events, "statusEvents");
    const pieces: boolean[] = [];
    do pieces.push(await node.index.fold(node.kv, 1, 40));
    while (pieces.at(-1) === true);
    expect(pieces).toEqual([true, true, false]);
    const lengths = await Promise.all(read.mock.results.map(({ value }) => value));
    expect(lengths.map(({ length }) => length)).toEqual([41, 41, 20]);
    expect(await problems()).toEqual([]);
  });

  test("is updated before a read if more changes are pending than the reader should hold in memory", async () => {
    for (let n = 0; n < 100; n++) await addEnded(n);
    const reader = composeNode({ runtime: node.runtime, kv: node.kv });
    const read = vi.spyOn(reader.events, "statusEvents");
    const all = SUBSPACES.replicator.range([51, "ended"]);
    const rowCount = () =>
      reader.index.read(node.kv, async (view) => (await view.rows(all)).length, 40);
    expect(await Promise.all([rowCount(), rowCount()])).toEqual([100, 100]);
    const [first, second] = await Promise.all(read.mock.results.map(({ value }) => value));
    expect([first.length, second.length]).toEqual([41, 41]);
    const [foldedId, lastId] = await node.kv.read((tx) =>
      Promise.all([node.events.foldedId(tx), node.events.lastId(tx)]),
    );
    expect(foldedId).toBe(lastId);
    expect(await problems()).toEqual([]);
  });

  test("returns all pending changes to readers even while the store is full and cannot be updated", async () => {
    for (let n = 0; n < 100; n++) await addEnded(n);
    vi.spyOn(node.kv, "isFull").mockReturnValue(true);
    const fold = vi.spyOn(node.index, "fold");
    const all = SUBSPACES.replicator.range([51, "ended"]);
    const rows = await node.index.read(node.kv, (view) => view.rows(all), 40);
    expect(rows).toHaveLength(100);
    expect(fold).not.toHaveBeenCalled();
  });

  test("can change without an event that consumers see", async () => {
    await addEnded(0);
    const fallBehind = (sinceMs: number) =>
      node.kv.transact((tx) => node.backlogs.set(tx, "job0", { sinceMs, pending: 1, seenMs: 3 }));
    const { events } = node.replicator;
    const begin = "0".repeat(24);
    await fallBehind(1);
    const seen = async () => (await events.page(begin, {})).events.map(({ changes }) => changes);
    expect(await seen()).toEqual([["added"], ["behind"]]);
    await fallBehind(2);
    expect(await seen()).toEqual([["added"], ["behind"]]);
    expect((await events.page(begin, {})).next).toBe(await events.lastId());
    expect(await problems()).toEqual([]);
  });

  test("lists the transient jobs that ended before a given time, in pages", async () => {
    for (let n = 0; n < 450; n++) await addEnded(n);
    const found: number[] = [];
    const find = (after?: EndedJob) => node.index.endedTransients(node.kv, 440, after);
    for (let page = await find(); page.length > 0; page = await find(page.at(-1))) {
      expect(page.length).toBeLessThanOrEqual(200);
      found.push(...page.map(({ endedMs }) => endedMs));
    }
    expect(found).toEqual(Array.from({ length: 440 }, (_, n) => n));
  });

  test("is compared with all jobs page by page", async () => {
    for (let n = 0; n < 450; n++) await addEnded(n);
    expect(await repairAll(node)).toEqual({ repairedCount: 0, pageCount: 3 });
  });

  test("is compared with the jobs over several clean-ups, and finds old transient jobs without reading other jobs", async () => {
    for (let n = 0; n < 2100; n++) await addEnded(n);
    const list = vi.spyOn(node.jobs, "list");
    const pageCounts: number[] = [];
    for (let cleanUp = 0; cleanUp < 3; cleanUp++) {
      list.mockClear();
      await node.cleanUp.compareIndex();
      pageCounts.push(list.mock.calls.length);
    }
    expect(pageCounts).toEqual([10, 1, 10]);
    list.mockClear();
    await node.cleanUp.removeOldTransients();
    expect(list).not.toHaveBeenCalled();
  });

  /** Changes the store to the state in which a version without the index would leave it. */
  async function becomeOlder(): Promise<void> {
    const clear = (tx: Transaction, subspace: Subspace, first: number, end: number) => {
      const { begin } = subspace.range([first]);
      tx.clearRange({ begin, end: subspace.pack([end]) });
    };
    await node.kv.transact(async (tx) => {
      clear(tx, SUBSPACES.replicator, 25, 27);
      tx.clear(SUBSPACES.replicator.pack([50]));
      clear(tx, SUBSPACES.replicator, 51, 54);
      const page = await node.jobs.list(tx, REPLICATION_JOB_TYPE, { limit: 1000 });
      for (const { id } of page.entries) node.index.statuses.set(tx, id, undefined);
    });
  }

  /** Adds a transient job that ended `endedMs` milliseconds after 1970. */
  async function addEnded(endedMs: number, source = "a"): Promise<void> {
    const replication = parseReplication({ source, target: `b${endedMs}` });
    const asked = { replication, refusal: undefined, document: undefined, userName: null };
    const data = newJobData({ ...asked, replicationId: undefined }, endedMs);
    const name = { type: REPLICATION_JOB_TYPE, id: `job${endedMs}` };
    const ended = encodeProgress({ ...data, ...jobOutcome("completed", undefined, {}) });
    const request = encodeRequest(data);
    await node.kv.transact((tx) => node.jobs.add(tx, name, ended, { request, scheduledAtSec: 1 }));
  }
});
