/**
 * The list of workers: registration, leases, expulsion (draft of RFC 007). Every call runs inside
 * the caller's transaction. Renewals do not write the membership row, which acceptance reads, so
 * renewals and acceptances never conflict.
 */
import { type Runtime, randomHex } from "../base/index.ts";
import {
  packTupleVersionstamped,
  type ReadTransaction,
  type Subspace,
  type Transaction,
  Versionstamp,
  type Watch,
} from "../kv/index.ts";
import type { JobType } from "./job.ts";
import { type JobKeys, jobKeys } from "./job-keys.ts";
import { WorkerExpelledError } from "./jobs-errors.ts";
import { type Labels, NO_LABELS } from "./labels.ts";
import type { Worker, WorkerId, WorkerLease } from "./worker.ts";
import {
  decodeLease,
  decodeWorker,
  encodeExpulsion,
  encodeLease,
  encodeWorker,
} from "./worker-record.ts";

export type WorkerDescription = Omit<Worker, "id" | "sinceMs" | "labels"> & {
  /** Labels of the worker. Default: none. */
  readonly labels?: Labels;
};

export class Workers {
  readonly #runtime: Runtime;
  readonly #keys: JobKeys;

  constructor(runtime: Runtime, subspace: Subspace) {
    this.#runtime = runtime;
    this.#keys = jobKeys(subspace);
  }

  /** Registers a worker and starts its lease. */
  register(tx: Transaction, { labels = NO_LABELS, ...description }: WorkerDescription): Worker {
    const sinceMs = this.#runtime.clock.nowMs();
    const worker = { ...description, labels, id: randomHex(this.#runtime.random), sinceMs };
    tx.set(this.#keys.worker.key({ worker: worker.id }), encodeWorker(worker));
    tx.set(
      this.#keys.lease.key({ worker: worker.id }),
      encodeLease({ renewalCount: 0, renewedAtMs: sinceMs }),
    );
    this.#announceChange(tx);
    return worker;
  }

  /** Renews a member's lease. Returns false if the worker is no longer a member. */
  async renew(tx: Transaction, id: WorkerId): Promise<boolean> {
    if (!(await this.isMember(tx, id))) return false;
    const renewalCount = ((await this.lease(tx, id))?.renewalCount ?? 0) + 1;
    const renewedAtMs = this.#runtime.clock.nowMs();
    tx.set(this.#keys.lease.key({ worker: id }), encodeLease({ renewalCount, renewedAtMs }));
    return true;
  }

  async isMember(tx: ReadTransaction, id: WorkerId): Promise<boolean> {
    return (await tx.get(this.#keys.worker.key({ worker: id }))) !== undefined;
  }

  /**
   * Returns the worker, or throws if it is not a member. For transactions that only a member is
   * allowed to commit.
   */
  async verifyMember(tx: ReadTransaction, id: WorkerId): Promise<Worker> {
    const worker = await this.member(tx, id);
    if (worker === undefined) throw new WorkerExpelledError(id, "expelled");
    return worker;
  }

  async lease(tx: ReadTransaction, id: WorkerId): Promise<WorkerLease | undefined> {
    const value = await tx.get(this.#keys.lease.key({ worker: id }));
    return value && decodeLease(value);
  }

  /** Returns the worker with this id; undefined if it was expelled or has left. */
  async member(tx: ReadTransaction, id: WorkerId): Promise<Worker | undefined> {
    const value = await tx.get(this.#keys.worker.key({ worker: id }));
    return value && decodeWorker(id, value);
  }

  /** Returns all members, or only those that accept jobs of a type, in id order. */
  async members(tx: ReadTransaction, type?: JobType): Promise<Worker[]> {
    const page = await tx.getRangePage(this.#keys.worker.range());
    const all = page.entries.map(({ key, value }) =>
      decodeWorker(this.#keys.worker.unpack(key).worker, value),
    );
    return type === undefined ? all : all.filter(({ types }) => types.includes(type));
  }

  /** Returns the expelled workers whose jobs have not all been requeued. */
  async expelled(tx: ReadTransaction): Promise<WorkerId[]> {
    const page = await tx.getRangePage(this.#keys.expulsion.range());
    return page.entries.map(({ key }) => this.#keys.expulsion.unpack(key).worker);
  }

  /**
   * Returns a watch that fires when a worker registers, leaves or is expelled after this
   * transaction's commit.
   */
  watch(tx: Transaction): Watch {
    return tx.watch(this.#keys.membership.key({}));
  }

  /**
   * Removes a member. Returns whether the member was removed. If `renewalCount` is passed, a member
   * that has renewed its lease since this count is kept. The removed worker can no longer accept
   * jobs. A tombstone remains until its jobs have been requeued, in batches, by any worker.
   */
  async expel(tx: Transaction, id: WorkerId, renewalCount?: number): Promise<boolean> {
    if (!(await this.isMember(tx, id))) return false;
    if (renewalCount !== undefined) {
      const lease = await this.lease(tx, id);
      if (lease?.renewalCount !== renewalCount) return false;
    }
    tx.clear(this.#keys.worker.key({ worker: id }));
    tx.clear(this.#keys.lease.key({ worker: id }));
    tx.set(this.#keys.expulsion.key({ worker: id }), encodeExpulsion());
    this.#announceChange(tx);
    return true;
  }

  /** Removes the tombstone of an expelled worker whose jobs have all been requeued. */
  forget(tx: Transaction, id: WorkerId): void {
    tx.clear(this.#keys.expulsion.key({ worker: id }));
  }

  #announceChange(tx: Transaction): void {
    const stamp = packTupleVersionstamped([Versionstamp.incomplete(tx.nextUserVersion())]);
    tx.setVersionstampedValue(this.#keys.membership.key({}), stamp);
  }
}
