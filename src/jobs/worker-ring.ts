/**
 * Detects dead workers (draft of RFC 007). The workers form a ring in id order, and each watches
 * its right-hand neighbour. While this neighbour is silent, the worker also watches the next one,
 * so that neighbours that die together are detected together.
 *
 * A worker expels a neighbour whose count of renewals has not changed for a whole lease, measured
 * on the observer's clock. A concurrent renewal prevents the expulsion. The observer immediately
 * requeues the jobs of the expelled worker. If the observer dies first, the next worker in the ring
 * requeues them.
 */
import { type Runtime, waitAtMost } from "../base/index.ts";
import type { KeyValueStore, ReadTransaction, Watch } from "../kv/index.ts";
import type { Jobs } from "./jobs.ts";
import { RENEWALS_PER_LEASE } from "./lease.ts";
import { requeueInBatches } from "./requeue.ts";
import type { Worker, WorkerId, WorkerLease } from "./worker.ts";

/** Shortest pause between checks. */
const PAUSE_MS_MIN = 20;
/** Maximum number of leases read concurrently. */
const READ_MAX = 100;

export interface WorkerRingParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
}

type Neighbour =
  | { readonly kind: "member"; readonly worker: Worker }
  | { readonly kind: "expelled"; readonly id: WorkerId };

/** A worker's renewal count, and the time at which the count last changed. */
interface Sighting {
  readonly renewalCount: number;
  readonly seenAtMs: number;
}

/** An observer's position in the ring, and the lease that determines how often it checks. */
export type RingPlace = Pick<Worker, "id" | "leaseMs">;

/**
 * Cached list of the other workers. It is read again after a change, and at the latest after the
 * duration of this worker's lease.
 */
interface RingList {
  readonly neighbours: readonly Neighbour[];
  readonly changed: Watch;
  readonly untilMs: number;
}

export class WorkerRing {
  readonly #parts: WorkerRingParts;
  readonly #self: WorkerId;
  readonly #leaseMs: number;
  #list: RingList | undefined;
  #sightings = new Map<WorkerId, Sighting>();

  constructor(parts: WorkerRingParts, self: RingPlace) {
    this.#parts = parts;
    this.#self = self.id;
    this.#leaseMs = self.leaseMs;
  }

  /**
   * Checks the neighbours once, and expels silent workers. Returns the time until the next check,
   * which is due earlier if the list of workers changes.
   */
  async look(): Promise<number> {
    return this.#visit(await this.#neighbours());
  }

  /** Settles when the workers have changed, or after `pauseMs`. */
  async wait(pauseMs: number, over: AbortSignal): Promise<void> {
    await waitAtMost(this.#parts.runtime.clock, pauseMs, over, async (waited) => {
      try {
        await this.#list?.changed.fired(waited);
      } finally {
        if (!waited.aborted) this.close();
      }
    });
  }

  /** Cancels the watch of the worker list. The next check reads the list again. */
  close(): void {
    this.#list?.changed.cancel();
    this.#list = undefined;
  }

  /** Returns all other workers, beginning with the neighbour to the right. */
  async #neighbours(): Promise<readonly Neighbour[]> {
    const { runtime, kv, jobs } = this.#parts;
    const nowMs = runtime.clock.monotonicMs();
    if (this.#list !== undefined && nowMs < this.#list.untilMs) return this.#list.neighbours;
    this.close();
    this.#list = await kv.transact(async (tx) => ({
      neighbours: await this.#read(tx.snapshot),
      changed: jobs.workers.watch(tx),
      untilMs: nowMs + this.#leaseMs,
    }));
    return this.#list.neighbours;
  }

  async #read(tx: ReadTransaction): Promise<Neighbour[]> {
    const { workers } = this.#parts.jobs;
    const [members, expelled] = await Promise.all([workers.members(tx), workers.expelled(tx)]);
    const all = new Map<WorkerId, Neighbour>();
    for (const id of expelled) all.set(id, { kind: "expelled", id });
    for (const worker of members) all.set(worker.id, { kind: "member", worker });
    all.delete(this.#self);
    const ids = [...all.keys()].toSorted();
    const right = ids.findIndex((id) => id > this.#self);
    const ring = right < 0 ? ids : [...ids.slice(right), ...ids.slice(0, right)];
    return ring.map((id) => all.get(id) as Neighbour);
  }

  /** Checks the neighbours to the right, up to the first neighbour that is alive. */
  async #visit(neighbours: readonly Neighbour[]): Promise<number> {
    const { clock } = this.#parts.runtime;
    const before = this.#sightings;
    this.#sightings = new Map();
    let pauseMs = this.#leaseMs / RENEWALS_PER_LEASE;
    // The first read covers only the nearest neighbour, which is usually alive.
    for (let from = 0, count = 1; from < neighbours.length; from += count, count = READ_MAX) {
      const some = neighbours.slice(from, from + count);
      const lookedAtMs = clock.monotonicMs();
      const leases = await this.#leases(some);
      const readAtMs = clock.monotonicMs();
      for (const [index, neighbour] of some.entries()) {
        if (neighbour.kind === "expelled") {
          await this.#rescue(neighbour.id);
          continue;
        }
        const lease = leases[index];
        // The worker has left since the list was read.
        if (lease === undefined) continue;
        const { worker } = neighbour;
        const { renewalCount } = lease;
        const seen = before.get(worker.id);
        const sighting =
          seen?.renewalCount === renewalCount ? seen : { renewalCount, seenAtMs: readAtMs };
        this.#sightings.set(worker.id, sighting);
        const silentMs = lookedAtMs - sighting.seenAtMs;
        if (silentMs < worker.leaseMs) {
          pauseMs = Math.min(pauseMs, worker.leaseMs - silentMs);
          const isLiving = silentMs < (2 * worker.leaseMs) / RENEWALS_PER_LEASE;
          if (seen !== undefined && isLiving) return Math.max(PAUSE_MS_MIN, pauseMs);
        } else if (await this.#expel(worker, renewalCount)) {
          await this.#rescue(worker.id);
        }
      }
    }
    return Math.max(PAUSE_MS_MIN, pauseMs);
  }

  #leases(neighbours: readonly Neighbour[]): Promise<(WorkerLease | undefined)[]> {
    const { kv, jobs } = this.#parts;
    return kv.read((tx) =>
      Promise.all(
        neighbours.map((neighbour) =>
          neighbour.kind === "member" ? jobs.workers.lease(tx, neighbour.worker.id) : undefined,
        ),
      ),
    );
  }

  async #expel(worker: Worker, renewalCount: number): Promise<boolean> {
    const { kv, jobs, runtime } = this.#parts;
    const expelled = await kv.transact((tx) => jobs.workers.expel(tx, worker.id, renewalCount), {
      whenUnknown: "retry",
    });
    if (expelled) {
      const { id, node, processId } = worker;
      runtime.trace.event("jobs.worker-expelled", { worker: id, node, processId, by: this.#self });
    }
    return expelled;
  }

  async #rescue(id: WorkerId): Promise<void> {
    await requeueAll(this.#parts, id);
    // Removing the tombstone fires no watch, so the list must be read again.
    this.close();
  }
}

/** Monitors the ring until `over` aborts. */
export async function watchRing(
  parts: WorkerRingParts,
  self: RingPlace,
  over: AbortSignal,
): Promise<void> {
  const ring = new WorkerRing(parts, self);
  try {
    while (!over.aborted) await ring.wait(await ring.look(), over);
  } finally {
    ring.close();
  }
}

/** Requeues all jobs of an expelled worker. Returns the number of requeued jobs. */
export async function requeueAll(
  { runtime, kv, jobs }: WorkerRingParts,
  worker: WorkerId,
): Promise<number> {
  const jobCount = await requeueInBatches(kv, async (tx, limit) => {
    const batch = await jobs.requeueHeldBy(tx, worker, limit);
    if (batch.isDone) jobs.workers.forget(tx, worker);
    return batch;
  });
  runtime.trace.event("jobs.worker-cleared", { worker, jobCount });
  return jobCount;
}
