/**
 * Index of the groups with pending jobs, for each queue (`labels.ts`). A group's index position
 * (`Place`) determines its row in one of two indexes:
 *
 *   none    no job of the group is pending
 *   later   all pending jobs of the group are due in the future; indexed by the earliest due time
 *   ready   a job of the group is due; indexed by the group's standing
 *
 * A group has one standing in all queues. When the standing changes, all rows of the group in the
 * index `ready` move. Only acceptors make a group ready, and only in their own queues. A group
 * therefore has at most one row in `ready` per queue of an acceptor, whatever labels jobs require.
 */
import { EMPTY_BYTES } from "../base/index.ts";
import type { Key, KeyValue, ReadTransaction, Transaction } from "../kv/index.ts";
import {
  decodePlace,
  decodeStanding,
  encodePlace,
  encodeStanding,
  type Place,
} from "./group-record.ts";
import type { JobType } from "./job.ts";
import { type JobKeys, readyGroup, readyKey } from "./job-keys.ts";
import { type Queue, typeOfQueue } from "./labels.ts";
import { compareStandings, NO_USAGE, type Order, type Standing } from "./standing.ts";

/** Maximum number of groups that an acceptor moves from `later` to `ready` per transaction. */
const COME_DUE_COUNT_MAX = 8;

/** A ready group with its standing. */
export type Candidate = Order & { readonly group: string };

/** A group in the index `later` of a queue. */
interface LaterGroup {
  readonly queue: Queue;
  readonly group: string;
  readonly dueAtSec: number;
}

export class GroupIndex {
  readonly #keys: JobKeys;
  /** The last change in progress, by transaction and group. */
  readonly #changes = new WeakMap<Transaction, Map<string, Promise<void>>>();

  constructor(keys: JobKeys) {
    this.#keys = keys;
  }

  /** Returns shares and usage of a group. `usageSec` computes the usage at a given time. */
  async standing(tx: ReadTransaction, type: JobType, group: string): Promise<Standing> {
    const value = await tx.get(this.#keys.standing.key({ type, group }));
    return value === undefined ? NO_USAGE : decodeStanding(value);
  }

  async place(tx: ReadTransaction, queue: Queue, group: string): Promise<Place> {
    const value = await tx.get(this.#keys.place.key({ queue, group }));
    return value === undefined ? { kind: "none" } : decodePlace(value);
  }

  /** Derives a group's index position from the first row of its queue. */
  placeFor(first: KeyValue | undefined): Place {
    if (first === undefined) return { kind: "none" };
    return { kind: "later", dueAtSec: this.#keys.groupPending.unpack(first.key).scheduledAtSec };
  }

  /** Returns the first groups that are ready in any of the queues, lowest standing first. */
  async candidates(
    tx: ReadTransaction,
    queues: readonly Queue[],
    limit: number,
  ): Promise<Candidate[]> {
    const ready = async (queue: Queue): Promise<Candidate[]> => {
      const { entries } = await tx.getRangePage(this.#keys.ready.range({ queue }), { limit });
      return entries.map(({ key }) => readyGroup(this.#keys, key));
    };
    const [first = [], ...others] = await Promise.all(queues.map(ready));
    if (others.length === 0) return first;
    const found = new Map([first, ...others].flat().map((one) => [one.group, one]));
    return [...found.values()].toSorted(compareStandings).slice(0, limit);
  }

  /**
   * Returns the groups of these queues that have become due but are still in the index `later`, up
   * to a maximum.
   */
  async comeDue(
    tx: ReadTransaction,
    queues: readonly Queue[],
    dueBySec: number,
  ): Promise<readonly LaterGroup[]> {
    const limit = COME_DUE_COUNT_MAX;
    const found = await Promise.all(
      queues.map(async (queue) => {
        const range = this.#keys.later.rangeUntil({ queue, dueAtSec: dueBySec });
        const { entries } = await tx.getRangePage(range, { limit });
        return entries.map(({ key }) => ({ ...this.#keys.later.unpack(key), queue }));
      }),
    );
    return found
      .flat()
      .toSorted((left, right) => left.dueAtSec - right.dueAtSec)
      .slice(0, limit);
  }

  /**
   * Returns the time at which the next group in the index `later` becomes due, or `undefined` if
   * the index contains no group of the queue.
   */
  async nextDueSec(tx: ReadTransaction, queue: Queue): Promise<number | undefined> {
    const { entries } = await tx.getRangePage(this.#keys.later.range({ queue }), { limit: 1 });
    return entries[0] && this.#keys.later.unpack(entries[0].key).dueAtSec;
  }

  /**
   * Returns the queues in which the group is ready, except the queue of jobs that require no
   * labels.
   */
  async readyQueues(tx: ReadTransaction, type: JobType, group: string): Promise<readonly Queue[]> {
    const { entries } = await tx.getRangePage(this.#keys.readyQueue.range({ type, group }));
    return entries.map(({ key }) => this.#keys.readyQueue.unpack(key).queue);
  }

  /**
   * Moves a group in a queue so that acceptors find a job due at `dueAtSec`. If the group need not
   * be moved, the transaction conflicts only with transactions that move it behind `dueAtSec`.
   */
  enter(tx: Transaction, queue: Queue, group: string, dueAtSec: number): Promise<void> {
    return this.#serialize(tx, queue, group, async () => {
      const place = await this.place(tx.snapshot, queue, group);
      if (dueTimeOf(place) > dueAtSec) {
        await this.move(tx, queue, group, place, { kind: "later", dueAtSec });
      } else {
        tx.addReadConflictKey(this.#keys.passed.key({ queue, group, dueAtSec }));
      }
    });
  }

  /**
   * Moves a group in a queue to the index position that `decide` derives from the current position.
   * If `decide` returns nothing, the group is not moved.
   */
  change(
    tx: Transaction,
    queue: Queue,
    group: string,
    decide: (place: Place) => Promise<Place | undefined>,
  ): Promise<void> {
    return this.#serialize(tx, queue, group, async () => {
      const place = await this.place(tx, queue, group);
      const next = await decide(place);
      if (next !== undefined) await this.move(tx, queue, group, place, next);
    });
  }

  /**
   * Requeueing many jobs changes groups concurrently in one transaction, so changes of the same
   * group are serialized. Otherwise two changes would start from the same position, and the row
   * written by the first would remain.
   */
  #serialize(
    tx: Transaction,
    queue: Queue,
    group: string,
    change: () => Promise<void>,
  ): Promise<void> {
    let ofTransaction = this.#changes.get(tx);
    if (ofTransaction === undefined) {
      ofTransaction = new Map();
      this.#changes.set(tx, ofTransaction);
    }
    const name = JSON.stringify([queue, group]);
    const changed = ofTransaction.get(name)?.then(change, change) ?? change();
    ofTransaction.set(name, changed);
    return changed;
  }

  async move(tx: Transaction, queue: Queue, group: string, from: Place, to: Place): Promise<void> {
    const placeKey = this.#keys.place.key({ queue, group });
    tx.addReadConflictKey(placeKey);
    const fromKey = await this.#indexKey(tx, queue, group, from);
    const toKey = await this.#indexKey(tx, queue, group, to);
    if (fromKey !== undefined) tx.clear(fromKey);
    if (toKey !== undefined) tx.set(toKey, EMPTY_BYTES);
    if (to.kind === "none") tx.clear(placeKey);
    else tx.set(placeKey, encodePlace(to));
    if (dueTimeOf(from) < dueTimeOf(to)) this.#pass(tx, queue, group, from, to);
    if (typeof queue === "string") return;
    const readyQueueKey = this.#keys.readyQueue.key({ type: typeOfQueue(queue), group, queue });
    if (to.kind === "ready") tx.set(readyQueueKey, EMPTY_BYTES);
    else if (from.kind === "ready") tx.clear(readyQueueKey);
  }

  /**
   * Stores a group's new standing, and moves the group's rows in the queues in which it is ready.
   */
  async restand(
    tx: Transaction,
    type: JobType,
    group: string,
    from: Standing,
    to: Standing,
  ): Promise<void> {
    if (from === to) return;
    tx.set(this.#keys.standing.key({ type, group }), encodeStanding(to));
    const [place, labelled] = await Promise.all([
      this.place(tx, type, group),
      this.readyQueues(tx, type, group),
    ]);
    const queues = place.kind === "ready" ? [type, ...labelled] : labelled;
    for (const queue of queues) {
      tx.clear(readyKey(this.#keys, queue, from, group));
      tx.set(readyKey(this.#keys, queue, to, group), EMPTY_BYTES);
    }
  }

  /**
   * Declares a write conflict on the due times that the group moves past. A concurrent `enter` with
   * such a due time is then repeated.
   */
  #pass(tx: Transaction, queue: Queue, group: string, from: Place, to: Place): void {
    const { passed } = this.#keys;
    const { begin, end } = passed.range({ queue, group });
    const keyOf = ({ dueAtSec }: { readonly dueAtSec: number }): Key =>
      passed.key({ queue, group, dueAtSec });
    tx.addWriteConflictRange({
      begin: from.kind === "later" ? keyOf(from) : begin,
      end: to.kind === "later" ? keyOf(to) : end,
    });
  }

  async #indexKey(
    tx: ReadTransaction,
    queue: Queue,
    group: string,
    place: Place,
  ): Promise<Key | undefined> {
    if (place.kind === "none") return undefined;
    if (place.kind === "later")
      return this.#keys.later.key({ queue, dueAtSec: place.dueAtSec, group });
    const standing = await this.standing(tx, typeOfQueue(queue), group);
    return readyKey(this.#keys, queue, standing, group);
  }
}

/** Earliest due time of a job that acceptors find at this position. */
function dueTimeOf(place: Place): number {
  if (place.kind === "later") return place.dueAtSec;
  return place.kind === "ready" ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
}
