/**
 * A model of the queue in a few lines, which applies the ledger in order. It reports four
 * violations: an operation by a worker that does not hold the job, a job accepted by a worker
 * without its labels, a job that is lost without a fault, and a job that differs from its history.
 */
import { hasLabels, type Jobs, type JobType, type Labels } from "../../../src/jobs/index.ts";
import type { ReadTransaction } from "../../../src/kv/index.ts";
import { type Entry, type Operation, readLedger, textOf } from "./ledger.ts";

interface Holding {
  readonly lock: string;
  readonly node: string;
  readonly atMs: number;
}

interface ModelJob {
  readonly state: "pending" | "running" | "finished";
  /** Data of the job, as returned by `textOf`. */
  readonly data: string;
  readonly dueAtSec: number;
  /** Labels that the job requires. */
  readonly labels: Labels;
  /** Data that was set while the job ran, for its next run. */
  readonly next?: string;
  readonly isResubmitted?: boolean;
  readonly holding?: Holding;
}

export interface ReplayOptions {
  readonly types: readonly JobType[];
  /**
   * If a node had no fault for this time before it accepted a job, and has had none since, it must
   * not have lost the job.
   */
  readonly calmMs: number;
}

/** Returns problems with the operations and with the resulting jobs. */
export async function checkLedger(
  tx: ReadTransaction,
  jobs: Jobs,
  { types, calmMs }: ReplayOptions,
): Promise<string[]> {
  const replay = new Replay(calmMs);
  for (const entry of await readLedger(tx)) replay.apply(entry);
  const lists = await Promise.all(types.map((type) => jobs.list(tx, type, { limit: 100_000 })));
  const stored = new Map(
    lists
      .flatMap(({ entries }) => entries)
      .map(({ id, state, scheduledAtSec, data }) => [
        id,
        JSON.stringify({ state, dueAtSec: scheduledAtSec, data: textOf(data) }),
      ]),
  );
  for (const [id, { state, dueAtSec, data }] of replay.jobs) {
    const expected = JSON.stringify({ state, dueAtSec, data });
    const found = stored.get(id);
    if (found !== expected) replay.problems.push(`${id} is ${found}, and became ${expected}`);
    stored.delete(id);
  }
  for (const id of stored.keys()) replay.problems.push(`${id} is there, and nobody added it`);
  return replay.problems;
}

class Replay {
  readonly problems: string[] = [];
  readonly jobs = new Map<string, ModelJob>();
  readonly #locks = new Set<string>();
  readonly #calmMs: number;

  constructor(calmMs: number) {
    this.#calmMs = calmMs;
  }

  apply({ id, operation }: Entry): void {
    const job = this.jobs.get(id);
    if (operation.kind === "remove") {
      this.jobs.delete(id);
      return;
    }
    if (operation.kind === "add") {
      const { data, dueAtSec, labels } = operation;
      this.jobs.set(id, { ...requested(job, data, dueAtSec), labels });
      return;
    }
    if (job === undefined) this.problems.push(`${operation.kind} of ${id}, which does not exist`);
    else this.jobs.set(id, this.#after(id, job, operation));
  }

  #after(
    id: string,
    job: ModelJob,
    operation: Exclude<Operation, { kind: "add" | "remove" }>,
  ): ModelJob {
    switch (operation.kind) {
      case "move":
        return { ...job, labels: operation.labels };
      case "resubmit":
        return requested(job, operation.data, operation.dueAtSec);
      case "accept":
        return this.#accepted(id, job, operation);
      case "requeue":
        this.#checkLoss(id, job, operation.struckAtMs);
        return requeued({ ...job, dueAtSec: dueAfterLoss(job, operation.nowSec) });
      default:
        if (job.holding?.lock !== operation.lock) {
          this.problems.push(`${operation.kind} of ${id} by a former holder, ${operation.lock}`);
        }
    }
    const data = operation.data ?? job.data;
    if (operation.kind === "update") return { ...job, data };
    if (job.isResubmitted) return requeued({ ...job, data });
    return { state: "finished", data, dueAtSec: job.dueAtSec, labels: job.labels };
  }

  #accepted(
    id: string,
    job: ModelJob,
    { lock, node, atMs, labels: own }: Operation & { kind: "accept" },
  ): ModelJob {
    if (this.#locks.has(lock)) this.problems.push(`lock ${lock} was given twice`);
    this.#locks.add(lock);
    if (job.state !== "pending") this.problems.push(`${node} accepts ${id}, which is ${job.state}`);
    const { data, dueAtSec, labels } = job;
    if (!hasLabels(own, labels)) {
      this.problems.push(`${node} with labels ${own} accepts ${id}, which requires ${labels}`);
    }
    return { state: "running", data, dueAtSec, labels, holding: { lock, node, atMs } };
  }

  /** Checks that a worker lost its job because of a fault. */
  #checkLoss(
    id: string,
    { holding }: ModelJob,
    struckAtMs: Readonly<Record<string, number | null>>,
  ): void {
    if (holding === undefined) {
      this.problems.push(`${id} goes back to the queue, and nobody held it`);
      return;
    }
    const { node, atMs } = holding;
    const struck = struckAtMs[node] ?? Number.NEGATIVE_INFINITY;
    if (struck < atMs - this.#calmMs) {
      this.problems.push(`${node} loses ${id}, accepted at ${atMs}, though nothing happened to it`);
    }
  }
}

/** Returns the state of the job after a request for another run. */
function requested(
  job: ModelJob | undefined,
  data: string | undefined,
  dueAtSec: number,
): ModelJob {
  if (job?.state !== "running") {
    const labels = job?.labels ?? [];
    return { state: "pending", data: data ?? job?.data ?? "{}", dueAtSec, labels };
  }
  const next = data ?? job.next;
  return { ...job, dueAtSec, isResubmitted: true, ...(next === undefined ? {} : { next }) };
}

/**
 * Returns the due time of a job that was returned to the queue because its worker was lost. A
 * resubmitted job keeps its due time. Any other job is due now, or earlier if it already was.
 */
function dueAfterLoss({ isResubmitted, dueAtSec }: ModelJob, nowSec: number): number {
  return isResubmitted ? dueAtSec : Math.min(dueAtSec, nowSec);
}

function requeued({ data, next, dueAtSec, labels }: ModelJob): ModelJob {
  return { state: "pending", data: next ?? data, dueAtSec, labels };
}
