/** The index of jobs agrees with the jobs, whatever happened to them; it is built where there is none, and repaired. */
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createSystemRuntime } from "../../src/host/index.ts";
import { Jobs } from "../../src/jobs/index.ts";
import { KeyValueStore, MemoryEngine, packTuple, unpackTuple } from "../../src/kv/index.ts";
import {
  type FailureClass,
  parseReplication,
  REPLICATION_JOB_TYPE,
} from "../../src/replicator/index.ts";
import { FAILURE_CLASSES } from "../../src/replicator/jobs/failing.ts";
import { jobOutcome, newJobData } from "../../src/replicator/jobs/job-data.ts";
import { encodeProgress, encodeRequest } from "../../src/replicator/jobs/job-data-record.ts";
import type { EndedJob, RepairedPage } from "../../src/replicator/jobs/job-index.ts";
import { decodeStatus } from "../../src/replicator/jobs/job-status.ts";
import { HeldReplication } from "../../src/replicator/run/held-replication.ts";
import { SUBSPACES } from "../../src/server/layout.ts";
import { composeNode, JOBS_SUBSPACE } from "../support/compose-node.ts";
import { indexProblems } from "../support/index-problems.ts";

const BASE_ID = "0123456789abcdef0123456789abcdef";
const REVISION = { id: "d", revision: "1-a", status: 403, error: "forbidden", reason: "" } as const;

function open() {
  const runtime = createSystemRuntime();
  const kv = new KeyValueStore({ runtime, engine: new MemoryEngine({ runtime }) });
  return { ...composeNode({ runtime, kv }), runtime, kv };
}

const ONE = { limit: 1 };

type Node = ReturnType<typeof open>;

/** What may happen to jobs: any of these, in any order, to any of a few. */
const EVENTS = [
  ...["add", "accept", "accept", "begin", "begin", "report", "checkpoint", "expire", "repair"],
  ...["completed", "stopped", "stalled", "crashed", "crashed", "leave-behind", "arrive"],
  ...["pause", "resume", "retry", "reset", "cancel"],
  ...["fall-behind", "fall-behind", "catch-up"],
] as const;

interface Step {
  readonly event: string;
  readonly job: number;
  readonly failure: FailureClass;
}

const step: fc.Arbitrary<Step> = fc.record({
  event: fc.constantFrom(...EVENTS),
  job: fc.nat(2),
  failure: fc.constantFrom(...FAILURE_CLASSES),
});

/** Jobs of a node, with those that it holds. */
class History {
  readonly #node: Node;
  readonly #held = new Map<string, HeldReplication>();

  constructor(node: Node) {
    this.#node = node;
  }

  async apply({ event, job, failure }: Step): Promise<void> {
    const { replicator, kv, jobs, failureLists } = this.#node;
    const source = job % 2 === 0 ? `http://host${job}:5984/db` : "local";
    const replication = parseReplication({ source, target: `t${job}`, continuous: job < 2 });
    const requester = { userName: job < 1 ? "ann" : null, isAdmin: true };
    const id = replicator.transientId(replication, requester);
    const held = this.#held.get(id);
    switch (event) {
      case "add":
        await replicator.start(replication, requester);
        return;
      case "accept": {
        const dueBySec = 2 ** 33;
        const accepted = await kv.transact((tx) =>
          jobs.accept(tx, REPLICATION_JOB_TYPE, { dueBySec, countMax: 3 }),
        );
        if (accepted.kind !== "accepted") return;
        for (const [index, lock] of accepted.held.entries()) {
          const found = accepted.jobs[index] as (typeof accepted.jobs)[number];
          const parts = { ...this.#node, outages: this.#node.outages };
          this.#held.set(lock.id, new HeldReplication(parts, lock, found));
        }
        return;
      }
      case "begin":
        await this.#asHolder(id, () => held?.begin(`${BASE_ID.slice(1)}${job}+continuous`));
        return;
      case "report":
      case "checkpoint":
        await this.#asHolder(id, async () => {
          const { statistics, throughSequence, sourceSequence } = held?.data ?? {};
          if (statistics === undefined) return;
          const hasCheckpoint = event === "checkpoint";
          const speed = { rates: { docsPerSec: 0, bytesPerSec: 0 }, waitsFor: undefined };
          const figures = { statistics, throughSequence, sourceSequence, ...speed };
          held?.observe({ ...figures, checkpointedSequence: 1, hasCheckpoint });
          await held?.update();
        });
        return;
      case "completed":
        await this.#end(id, { kind: event, result: {} });
        return;
      case "stopped":
        await this.#end(id, { kind: event });
        return;
      case "stalled":
        await this.#end(id, { kind: event, reason: "" });
        return;
      case "crashed": {
        const side = FAILURE_CLASSES.indexOf(failure) % 2 === 0 ? "target" : undefined;
        const host = FAILURE_CLASSES.indexOf(failure) % 3 === 0 ? "example.com:5984" : undefined;
        const cause = { class: failure, phase: undefined, side, host } as const;
        const told = { error: "e", reason: "r" };
        await this.#end(id, { kind: event, failure: told, cause, unreachable: undefined });
        return;
      }
      case "expire": {
        const last = await kv.read((tx) => jobs.lastActivity(tx, REPLICATION_JOB_TYPE));
        if (last === undefined) return;
        await kv.transact((tx) => jobs.requeueSilent(tx, REPLICATION_JOB_TYPE, last, 1));
        return;
      }
      case "leave-behind":
      case "arrive": {
        const entry = { ...REVISION, phase: "write" } as const;
        const change =
          event === "arrive"
            ? { failed: [], arrived: [{ id: "d", revisions: ["1-a"] }] }
            : { failed: [entry], arrived: [] };
        const baseId = `${BASE_ID.slice(1)}${job}`;
        await kv.transact((tx) => failureLists.change(tx, baseId, { ...change, nowMs: 1 }));
        return;
      }
      case "fall-behind":
      case "catch-up": {
        const sinceMs = event === "catch-up" ? undefined : 10 + FAILURE_CLASSES.indexOf(failure);
        await kv.transact(async (tx) => {
          if ((await jobs.get(tx, { type: REPLICATION_JOB_TYPE, id })) === undefined) return;
          await this.#node.backlogs.set(tx, id, { sinceMs, pending: 1, seenMs: 20 });
        });
        return;
      }
      case "repair":
        expect((await repairAll(this.#node)).repairedCount).toBe(0);
        return;
      case "reset":
        await replicator.commands.startFrom(id, 0, null);
        return;
      default:
        await replicator.commands[event as "pause" | "resume" | "retry" | "cancel"](id, null);
    }
  }

  #end(id: string, ending: Parameters<HeldReplication["end"]>[0]): Promise<void> {
    return this.#asHolder(id, () => this.#held.get(id)?.end(ending)).then(() => {
      this.#held.delete(id);
    });
  }

  /** A job may have been taken from us meanwhile. */
  async #asHolder(id: string, work: () => Promise<unknown> | undefined): Promise<void> {
    try {
      await work();
    } catch (error) {
      expect((error as { code?: string }).code).toBe("JOBS_HALTED");
      this.#held.delete(id);
    }
  }
}

async function repairAll({
  index,
  kv,
  jobs,
}: Node): Promise<{ repairedCount: number; pageCount: number }> {
  const done = { repairedCount: 0, pageCount: 0 };
  let lastId: string | undefined = "";
  while (lastId !== undefined) {
    const page: RepairedPage = await index.repair(kv, jobs, lastId);
    done.repairedCount += page.repairedCount;
    done.pageCount++;
    lastId = page.lastId;
  }
  return done;
}

describe("the index of jobs", () => {
  let node: Node;
  beforeEach(async () => {
    node = open();
    await node.replicator.prepare();
  });
  afterEach(() => node.kv.close());

  const problems = () => node.kv.read((tx) => indexProblems(tx, node.jobs, node.failureLists));

  test("agrees with the jobs after any history", { timeout: 120_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 60 }), async (steps) => {
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
