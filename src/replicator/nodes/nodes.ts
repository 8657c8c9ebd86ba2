/** Lists current and recent processes that run jobs, for display, and sets drain orders. */
import type { Runtime } from "../../base/index.ts";
import {
  type Jobs,
  type Labels,
  NO_LABELS,
  type Program,
  type Worker,
  type WorkerLease,
} from "../../jobs/index.ts";
import type { KeyValueStore, ReadTransaction, Subspace } from "../../kv/index.ts";
import { REPLICATION_JOB_TYPE } from "../jobs/job-data.ts";
import type { NodeId, NodeReport } from "./node-report.ts";
import { NodeStore, type StoredNode } from "./node-store.ts";
import { type MinuteCounts, RunRates } from "./run-rates.ts";

/** How long the last report of a dead node is kept. */
const DEAD_MS_MAX = 3_600_000;

export interface NodesParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
  readonly subspace: Subspace;
}

/**
 * - running: registered as a worker
 * - draining: registered, but accepts no jobs and stops its running jobs
 * - dead: has reported, but is no longer registered, because its lease expired
 */
export type NodeState = "running" | "draining" | "dead";

export interface NodeEntry {
  /**
   * Id of the process; undefined if the worker has not reported, or runs a version without reports.
   */
  readonly id: NodeId | undefined;
  readonly node: string;
  readonly processId: string;
  readonly state: NodeState;
  /** Whether the node was ordered to drain, even if the node is dead. */
  readonly isDraining: boolean;
  /** Number of jobs of the node; for a dead node, number of jobs that are not requeued yet. */
  readonly jobCount: number;
  /** Last lease renewal; undefined for a dead node. */
  readonly renewedMs: number | undefined;
  readonly report: NodeReport | undefined;
  /** Labels of the node; empty for a dead node. */
  readonly labels: Labels;
  /** Program that the worker announced at its registration, if it is registered. */
  readonly program: Program | undefined;
}

/** Number of processes that match a drain order, and number of those whose order changed. */
export interface DrainOutcome {
  readonly matchedCount: number;
  readonly changedCount: number;
}

export class Nodes {
  readonly #parts: NodesParts;
  readonly #store: NodeStore;
  readonly #rates: RunRates;

  constructor(parts: NodesParts) {
    this.#parts = parts;
    this.#store = new NodeStore(parts.subspace);
    this.#rates = new RunRates(parts.subspace);
  }

  /** Returns all processes, ordered by name, dead ones last. */
  async list(): Promise<readonly NodeEntry[]> {
    const entries = await this.#parts.kv.read((tx) => this.#entries(tx.snapshot));
    return entries.toSorted((left, right) => (orderOf(left) < orderOf(right) ? -1 : 1));
  }

  /** Returns the counts of all processes for each minute of the last hour, oldest first. */
  rates(): Promise<readonly MinuteCounts[]> {
    const { kv, runtime } = this.#parts;
    return kv.read((tx) => this.#rates.hour(tx.snapshot, runtime.clock.nowMs()));
  }

  /**
   * Orders a process (given by id), or all processes of a node (given by name), to drain; or
   * cancels the order.
   */
  setDraining(name: string, isDraining: boolean): Promise<DrainOutcome> {
    return this.#parts.kv.transact(
      async (tx) => {
        const ids = (await this.#entries(tx.snapshot)).flatMap(({ id, node, state }) =>
          id !== undefined && state !== "dead" && (id === name || node === name) ? [id] : [],
        );
        let changedCount = 0;
        for (const id of ids) {
          if (await this.#store.setDraining(tx, id, isDraining)) changedCount++;
        }
        return { matchedCount: ids.length, changedCount };
      },
      { whenUnknown: "retry" },
    );
  }

  /**
   * Removes old dead nodes, and run counts that are older than an hour. Called periodically, on any
   * node.
   */
  async forgetOld(): Promise<void> {
    const { kv, jobs, runtime } = this.#parts;
    await kv.transact(
      async (tx) => {
        this.#rates.forget(tx, runtime.clock.nowMs());
        for (const { id, report } of await this.#store.list(tx.snapshot)) {
          const isOld = this.#isOld(report);
          if (isOld && !(await jobs.workers.isMember(tx, report.worker)))
            this.#store.remove(tx, id);
        }
      },
      { whenUnknown: "retry" },
    );
  }

  async #entries(tx: ReadTransaction): Promise<readonly NodeEntry[]> {
    const members = await this.#parts.jobs.workers.members(tx, REPLICATION_JOB_TYPE);
    const stored = await this.#store.list(tx);
    const storedBy = new Map(stored.map((one) => [one.report.worker, one]));
    const memberIds = new Set(members.map(({ id }) => id));
    const dead = stored.filter(
      ({ report }) => !memberIds.has(report.worker) && !this.#isOld(report),
    );
    return Promise.all([
      ...members.map((worker) => this.#member(tx, worker, storedBy.get(worker.id))),
      ...unreplaced(dead, stored).map((one) => this.#dead(tx, one)),
    ]);
  }

  async #member(
    tx: ReadTransaction,
    worker: Worker,
    stored: StoredNode | undefined,
  ): Promise<NodeEntry> {
    const { jobs } = this.#parts;
    const lease: WorkerLease | undefined = await jobs.workers.lease(tx, worker.id);
    const isDraining = stored?.isDraining ?? false;
    return {
      id: stored?.id,
      node: worker.node,
      processId: worker.processId,
      state: isDraining ? "draining" : "running",
      isDraining,
      jobCount: await jobs.heldCount(tx, worker.id),
      renewedMs: lease?.renewedAtMs ?? worker.sinceMs,
      report: stored?.report,
      labels: worker.labels,
      program: worker.program,
    };
  }

  async #dead(tx: ReadTransaction, { id, report, isDraining }: StoredNode): Promise<NodeEntry> {
    const { node, processId, worker } = report;
    const jobCount = await this.#parts.jobs.heldCount(tx, worker);
    const unknown = { renewedMs: undefined, labels: NO_LABELS, program: undefined };
    const last = { ...unknown, report, isDraining, jobCount };
    return { id, node, processId, state: "dead", ...last };
  }

  #isOld({ reportedMs }: NodeReport): boolean {
    return this.#parts.runtime.clock.nowMs() - reportedMs > DEAD_MS_MAX;
  }
}

/**
 * Returns the dead processes that were not restarted. A process that started later on the same
 * node, after a dead process's last report, counts as its restart, but only for one dead process.
 */
function unreplaced(
  dead: readonly StoredNode[],
  all: readonly StoredNode[],
): readonly StoredNode[] {
  const successors = new Set(
    all.toSorted((left, right) => left.report.startedMs - right.report.startedMs),
  );
  return dead
    .toSorted((left, right) => left.report.reportedMs - right.report.reportedMs)
    .filter(({ report: { node, reportedMs } }) => {
      for (const one of successors) {
        if (one.report.node !== node || one.report.startedMs <= reportedMs) continue;
        successors.delete(one);
        return false;
      }
      return true;
    });
}

function orderOf({ state, node, processId }: NodeEntry): string {
  return JSON.stringify([state === "dead", node, processId]);
}
