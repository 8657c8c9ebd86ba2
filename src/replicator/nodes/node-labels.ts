/** Labels of the nodes that accept jobs now. */
import { hasLabels, type Job, type Jobs, type Labels } from "../../jobs/index.ts";
import type { ReadTransaction, Subspace } from "../../kv/index.ts";
import { NEVER_SEC } from "../jobs/decide.ts";
import { REPLICATION_JOB_TYPE } from "../jobs/job-data.ts";
import { NodeStore } from "./node-store.ts";

/** Maximum number of jobs that are read to count the jobs that no node is allowed to run. */
export const UNPLACED_MAX = 10_000;

type QueuedJob = Pick<Job, "id" | "state" | "scheduledAtSec" | "labels">;

export class NodeLabels {
  readonly #jobs: Jobs;
  readonly #store: NodeStore;

  constructor({ jobs, subspace }: { readonly jobs: Jobs; readonly subspace: Subspace }) {
    this.#jobs = jobs;
    this.#store = new NodeStore(subspace);
  }

  /** Returns the labels of each node that runs jobs and is not draining. Uses snapshot reads. */
  async list(tx: ReadTransaction): Promise<readonly Labels[]> {
    const [members, reported] = await Promise.all([
      this.#jobs.workers.members(tx.snapshot, REPLICATION_JOB_TYPE),
      this.#store.list(tx.snapshot),
    ]);
    const draining = new Set(
      reported.flatMap(({ report, isDraining }) => (isDraining ? [report.worker] : [])),
    );
    return members.filter(({ id }) => !draining.has(id)).map(({ labels }) => labels);
  }

  /**
   * Returns the number of due jobs that no accepting node is allowed to run, at most
   * `UNPLACED_MAX`.
   */
  async unplacedCount(tx: ReadTransaction, nowSec: number): Promise<number> {
    const wanted = { dueBySec: nowSec, workers: await this.list(tx), rowsMax: UNPLACED_MAX };
    return this.#jobs.unplacedCount(tx, REPLICATION_JOB_TYPE, wanted);
  }

  /**
   * Returns the ids of the jobs that wait because no node that accepts jobs has their labels. Reads
   * nothing unless a job requires labels.
   */
  async unplaced(tx: ReadTransaction, jobs: readonly QueuedJob[]): Promise<ReadonlySet<string>> {
    const placed = jobs.filter(
      ({ state, scheduledAtSec, labels }) =>
        state === "pending" && scheduledAtSec < NEVER_SEC && labels.length > 0,
    );
    if (placed.length === 0) return new Set();
    const nodes = await this.list(tx);
    const waiting = placed.filter(({ labels }) => !nodes.some((own) => hasLabels(own, labels)));
    return new Set(waiting.map(({ id }) => id));
  }
}
