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

export interface WorkerRingParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
}

type Neighbour =
  | { readonly kind: "member"; readonly worker: Worker; readonly lease: WorkerLease }
  | { readonly kind: "expelled"; readonly id: WorkerId };

/** A member as it was last seen to move. */
interface Sighting {
  readonly renewalCount: number;
  readonly seenAtMs: number;
}

/** The place of an observer in the ring, and the lease that sets the pace of its looks. */
export type RingPlace = Pick<Worker, "id" | "leaseMs">;

/** When to look again, at the latest. */
export interface Look {
  readonly pauseMs: number;
  readonly changed: Watch;
}

export class WorkerRing {
  readonly #parts: WorkerRingParts;
  readonly #self: WorkerId;
  readonly #leaseMs: number;
  #sightings = new Map<WorkerId, Sighting>();

  constructor(parts: WorkerRingParts, self: RingPlace) {
    this.#parts = parts;
    this.#self = self.id;
    this.#leaseMs = self.leaseMs;
  }

  /** Looks once, and does what is to be done. */
  async look(): Promise<Look> {
    const { clock } = this.#parts.runtime;
    const lookedAtMs = clock.monotonicMs();
    const { neighbours, changed } = await this.#parts.kv.transact(async (tx) => ({
      neighbours: await this.#read(tx),
      changed: this.#parts.jobs.workers.watch(tx),
    }));
    try {
      return { pauseMs: await this.#visit(neighbours, lookedAtMs, clock.monotonicMs()), changed };
    } catch (error) {
      changed.cancel();
      throw error;
    }
  }

  /** All others, beginning with the one to the right. */
  async #read(tx: ReadTransaction): Promise<Neighbour[]> {
    const { workers } = this.#parts.jobs;
    const reader = tx.snapshot;
    const [members, expelled] = await Promise.all([
      workers.members(reader),
      workers.expelled(reader),
    ]);
    const all = new Map<WorkerId, Neighbour>();
    for (const id of expelled) all.set(id, { kind: "expelled", id });
    for (const worker of members) {
      const lease = await workers.lease(reader, worker.id);
      if (lease !== undefined) all.set(worker.id, { kind: "member", worker, lease });
    }
    all.delete(this.#self);
    const ids = [...all.keys()].toSorted();
    const right = ids.findIndex((id) => id > this.#self);
    const ring = right < 0 ? ids : [...ids.slice(right), ...ids.slice(0, right)];
    return ring.map((id) => all.get(id) as Neighbour);
  }

  /** Visits the neighbours to the right up to the first that lives; returns how long nothing can be due. */
  async #visit(
    neighbours: readonly Neighbour[],
    lookedAtMs: number,
    readAtMs: number,
  ): Promise<number> {
    const before = this.#sightings;
    this.#sightings = new Map();
    let pauseMs = this.#leaseMs / RENEWALS_PER_LEASE;
    for (const neighbour of neighbours) {
      if (neighbour.kind === "expelled") {
        await this.#rescue(neighbour.id);
        continue;
      }
      const { worker, lease } = neighbour;
      const { renewalCount } = lease;
      const seen = before.get(worker.id);
      const sighting =
        seen?.renewalCount === renewalCount ? seen : { renewalCount, seenAtMs: readAtMs };
      this.#sightings.set(worker.id, sighting);
      const silentMs = lookedAtMs - sighting.seenAtMs;
      if (silentMs < worker.leaseMs) {
        pauseMs = Math.min(pauseMs, worker.leaseMs - silentMs);
        if (seen !== undefined && silentMs < (2 * worker.leaseMs) / RENEWALS_PER_LEASE) break;
      } else if (await this.#expel(worker, renewalCount)) {
        await this.#rescue(worker.id);
      }
    }
    return Math.max(PAUSE_MS_MIN, pauseMs);
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

  #rescue(id: WorkerId): Promise<number> {
    return requeueAll(this.#parts, id);
  }
}

/** Looks until `over` aborts. */
export async function watchRing(
  parts: WorkerRingParts,
  self: RingPlace,
  over: AbortSignal,
): Promise<void> {
  const ring = new WorkerRing(parts, self);
  while (!over.aborted) {
    const { pauseMs, changed } = await ring.look();
    await waitAtMost(parts.runtime.clock, pauseMs, over, (waited) => changed.fired(waited));
    changed.cancel();
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
