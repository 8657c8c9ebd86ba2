/**
 * Random histories of a few replication jobs, for tests of the stored state of jobs. The jobs
 * replicate nothing.
 */

import { strict as assert } from "node:assert";
import fc from "fast-check";
import { FAILURE_CLASSES, type FailureClass } from "../../src/contract/index.ts";
import type { KeyValueStore } from "../../src/kv/index.ts";
import { parseReplication, REPLICATION_JOB_TYPE } from "../../src/replicator/index.ts";
import type { RepairedPage } from "../../src/replicator/job-lists/job-index.ts";
import { HeldReplication } from "../../src/replicator/run/held-replication.ts";
import type { composeNode } from "./compose-node.ts";

const BASE_ID = "0123456789abcdef0123456789abcdef";
const REVISION = { id: "d", revision: "1-a", status: 403, error: "forbidden", reason: "" } as const;

export type HistoryNode = ReturnType<typeof composeNode> & { readonly kv: KeyValueStore };

/** A job that is part of the history. */
export interface HistoryJob {
  readonly id: string;
  /** Adds the job, or requests it again if it exists. */
  add(): Promise<unknown>;
}

/**
 * Returns the body of a replication. Some of the sources are on another server, and some are local
 * databases.
 */
export function historyReplication(job: number) {
  const source = job % 2 === 0 ? `http://host${job}:5984/db` : "local";
  return { source, target: `t${job}`, continuous: job < 2 };
}

function transientJobs(node: HistoryNode): (job: number) => HistoryJob {
  return (job) => {
    const { replicator } = node;
    const replication = parseReplication(historyReplication(job));
    const requester = { userName: job < 1 ? "ann" : null, isAdmin: true };
    const id = replicator.transientId(replication, requester);
    return { id, add: () => replicator.start(replication, requester) };
  };
}

/** Possible events of a job, in any order. */
const EVENTS = [
  ...["add", "accept", "accept", "begin", "begin", "report", "checkpoint", "expire", "repair"],
  ...["completed", "stopped", "stalled", "crashed", "crashed", "leave-behind", "arrive"],
  ...["pause", "resume", "retry", "reset", "cancel"],
  ...["fall-behind", "fall-behind", "catch-up"],
] as const;

export interface Step {
  readonly event: string;
  readonly job: number;
  readonly failure: FailureClass;
}

export const JOB_STEP: fc.Arbitrary<Step> = fc.record({
  event: fc.constantFrom(...EVENTS),
  job: fc.nat(2),
  failure: fc.constantFrom(...FAILURE_CLASSES),
});

/**
 * Returns the time at which the source responded. Depending on the class of the failure, this time
 * is before or after all other events.
 */
export function answeredMs(failure: FailureClass): number {
  return FAILURE_CLASSES.indexOf(failure) % 4 < 2 ? 20 : 2 ** 43;
}

/** Random history of the jobs of a node, including the jobs that the node holds. */
export class History {
  readonly #node: HistoryNode;
  readonly #made: (job: number) => HistoryJob;
  readonly #held = new Map<string, HeldReplication>();

  /** `made` creates the job with a given number. By default, jobs are transient. */
  constructor(node: HistoryNode, made: (job: number) => HistoryJob = transientJobs(node)) {
    this.#node = node;
    this.#made = made;
  }

  async apply({ event, job, failure }: Step): Promise<void> {
    const { replicator, kv, jobs, failureLists } = this.#node;
    const { id, add } = this.#made(job);
    const held = this.#held.get(id);
    switch (event) {
      case "add":
        await add();
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
        await this.#asHolder(id, () => held?.begin({ id: `${BASE_ID.slice(1)}${job}+continuous` }));
        return;
      case "report":
      case "checkpoint":
        await this.#asHolder(id, async () => {
          const { statistics, throughSequence, sourceSequence } = held?.data ?? {};
          if (statistics === undefined) return;
          const hasCheckpoint = event === "checkpoint";
          const speed = { rates: { docsPerSec: 0, bytesPerSec: 0 }, waitsFor: undefined };
          const figures = { statistics, throughSequence, sourceSequence, ...speed };
          held?.observe({ ...figures, checkpointedSequence: 1, hasBegun: true, hasCheckpoint });
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
        const reported = { error: "e", reason: "r" };
        await this.#end(id, { kind: event, failure: reported, cause, unreachable: undefined });
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
          const seenMs = answeredMs(failure);
          await this.#node.backlogs.set(tx, id, { sinceMs, pending: 1, seenMs });
        });
        return;
      }
      case "repair":
        assert.equal((await repairAll(this.#node)).repairedCount, 0);
        return;
      case "reset":
        await replicator.commands.startFrom(id, 0, { userName: null });
        return;
      default:
        await replicator.commands[event as "pause" | "resume" | "retry" | "cancel"](id, {
          userName: null,
        });
    }
  }

  #end(id: string, ending: Parameters<HeldReplication["end"]>[0]): Promise<void> {
    return this.#asHolder(id, () => this.#held.get(id)?.end(ending)).then(() => {
      this.#held.delete(id);
    });
  }

  /** Calls `work`. Ignores an error that reports that the lock of the job was lost. */
  async #asHolder(id: string, work: () => Promise<unknown> | undefined): Promise<void> {
    try {
      await work();
    } catch (error) {
      assert.equal((error as { code?: string }).code, "JOBS_HALTED");
      this.#held.delete(id);
    }
  }
}

/** Repairs the index: compares all of its rows with the jobs. */
export async function repairAll({
  index,
  kv,
}: Pick<HistoryNode, "index" | "kv">): Promise<{ repairedCount: number; pageCount: number }> {
  const done = { repairedCount: 0, pageCount: 0 };
  let lastId: string | undefined = "";
  while (lastId !== undefined) {
    const page: RepairedPage = await index.repair(kv, lastId);
    done.repairedCount += page.repairedCount;
    done.pageCount++;
    lastId = page.lastId;
  }
  return done;
}
