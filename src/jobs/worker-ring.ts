/**
 * Finds dead workers (draft of RFC 007). The workers form a ring in order of their ids, and each watches its right-hand
 * neighbour. While that one is silent it also watches the next one, so neighbours that die together are found together.
 *
 * A worker is judged by its count of renewals and by the observer's own clock. A worker without a renewal for a whole
 * lease is expelled, unless it renews in the same moment. The worker that expelled it requeues its jobs at once, or the
 * next one in the ring does.
 */
import { type Runtime, waitAtMost } from "../base/index.ts";
import type { KeyValueStore, ReadTransaction, Watch } from "../kv/index.ts";
import type { Jobs } from "./jobs.ts";
import { RENEWALS_PER_LEASE } from "./lease.ts";
import { requeueInBatches } from "./requeue.ts";
import type { Worker, WorkerId, WorkerLease } from "./worker.ts";

/** Never looks more often than that. */
const PAUSE_MS_MIN = 20;
/** Leases that are read at once. */
const READ_MAX = 100;

export interface WorkerRingParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
}

type Neighbour =
  | { readonly kind: "member"; readonly worker: Worker }
  | { readonly kind: "expelled"; readonly id: WorkerId };

/** A member as it was last seen to move. */
interface Sighting {
  readonly renewalCount: number;
  readonly seenAtMs: number;
}

/** The place of an observer in the ring, and the lease that sets the pace of its looks. */
export type RingPlace = Pick<Worker, "id" | "leaseMs">;

/** The others as they were listed: a list that changed is read again, and one that is as old as a lease, whatever was heard. */
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

  /** Looks once, and does what is to be done; returns how long nothing can be due, unless the workers change. */
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

  /** Watches nothing any more, until it looks again. */
  close(): void {
    this.#list?.changed.cancel();
    this.#list = undefined;
  }

  /** All others, beginning with the one to the right. */
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

  /** Visits the neighbours to the right up to the first that lives. */
  async #visit(neighbours: readonly Neighbour[]): Promise<number> {
    const { clock } = this.#parts.runtime;
    const before = this.#sightings;
    this.#sightings = new Map();
    let pauseMs = this.#leaseMs / RENEWALS_PER_LEASE;
    // Mostly the nearest one lives, and no other is asked for.
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
        // It has left since it was listed.
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
    // The mark is gone, which nobody announces.
    this.close();
  }
}

/** Looks until `over` aborts. */
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

/**
 * Watches the workers from a node that runs no jobs. When it is the only node left, no other notices that the workers died, and
 * their jobs would still count as running.
 */
export class WorkerWatch {
  readonly name = "jobs.worker-watch";
  readonly #parts: WorkerRingParts;
  readonly #leaseMs: number;

  constructor(parts: WorkerRingParts, leaseMs: number) {
    this.#parts = parts;
    this.#leaseMs = leaseMs;
  }

  /** The place before the first worker: it looks at that one, and beyond it while it is silent. */
  run(signal: AbortSignal): Promise<void> {
    return watchRing(this.#parts, { id: "", leaseMs: this.#leaseMs }, signal);
  }
}

/** Puts all that an expelled worker held back into the queue; returns how many jobs that were. */
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
