/** Counts the events of nodes, and reports forbidden events. */
import { KeyValueError } from "../../../src/kv/index.ts";
import type { World } from "../kernel/world.ts";

/**
 * Message of the error for a commit with an unknown outcome. The outcome is determined later, or
 * the transaction is repeated.
 */
const UNKNOWN = new KeyValueError("KV_UNKNOWN_COMMIT").message;

export class Observations {
  readonly problems: string[] = [];
  readonly counts = new Map<string, number>();
  /** Number of failed runs by job. */
  readonly crashCounts = new Map<string, number>();

  /**
   * Jobs that own their replications: they have started a run, and have neither failed nor ended
   * since.
   */
  readonly #owners = new Set<string>();

  constructor({ listeners }: World) {
    listeners.push((name, fields = {}, node = "") => {
      this.count(name, 1);
      if (name === "fault") this.count(`fault: ${fields.name}`, 1);
      // The document is on a failure list because the server failed.
      if (name === "replication.refused" && fields.status === 500) this.count("passed over", 1);
      if (name === "replication.crashed" || name === "replication.failed") {
        const jobId = String(fields.jobId);
        this.crashCounts.set(jobId, (this.crashCounts.get(jobId) ?? 0) + 1);
      }
      this.#noteOwner(name, fields);
      if (name === "simulation.unfenced") {
        this.problems.push(
          `${node} writes a checkpoint of ${fields.id} without asking for its lock`,
        );
      }
      const error = String(fields.error);
      if (name === "replication.abandoned" && error.includes(UNKNOWN)) {
        this.problems.push(`${node} gave ${fields.jobId} up: ${error}`);
      }
      // An error of the store is allowed to end a service, except for an unknown commit outcome.
      const isOfStore = error.startsWith("KeyValueError") && !error.includes(UNKNOWN);
      if (name === "service.failed" && !isOfStore) {
        this.problems.push(`${fields.service} of ${node} ended: ${fields.error}`);
      }
    });
  }

  #noteOwner(name: string, { jobId, state, error }: Readonly<Record<string, unknown>>): void {
    const id = String(jobId);
    if (name === "replication.started") this.#owners.add(id);
    if (name === "replication.failed" && error === "duplicate_job" && this.#owners.has(id)) {
      this.problems.push(`${id} lost its replication to another that wants the same`);
    }
    const isOver = name === "replication.ended" && state !== "pending";
    const isDecided = name === "replication.controlled" || name === "replication.cancelled";
    if (isOver || isDecided || name === "replication.crashed") this.#owners.delete(id);
  }

  get checkpointCount(): number {
    return this.counts.get("replication.checkpoint") ?? 0;
  }

  count(name: string, more: number): void {
    this.counts.set(name, (this.counts.get(name) ?? 0) + more);
  }
}
