/** What nodes announce, counted, and what none may announce. */
import type { World } from "../kernel/world.ts";

export class Observations {
  readonly problems: string[] = [];
  readonly counts = new Map<string, number>();
  /** Of each job, how often a run of it failed. */
  readonly crashCounts = new Map<string, number>();

  /** Jobs that ran, and then neither failed nor ended: they own their replications. */
  readonly #owners = new Set<string>();

  constructor({ listeners }: World) {
    listeners.push((name, fields = {}, node = "") => {
      this.count(name, 1);
      if (name === "fault") this.count(`fault: ${fields.name}`, 1);
      // Documents that were listed because the server failed over them.
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
      // A service may end because of the store only.
      if (name === "service.failed" && !String(fields.error).startsWith("KeyValueError")) {
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
