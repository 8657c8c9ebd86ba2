/**
 * Index of the groups with pending jobs. A group's index position (`Place`) determines its row in
 * one of two indexes:
 *
 *   none    no job of the group is pending
 *   later   all pending jobs of the group are due in the future; indexed by the earliest due time
 *   ready   a job of the group is due; indexed by the group's standing
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
import { NO_USAGE, type Order, type Standing } from "./standing.ts";

/** Maximum number of groups that an acceptor moves from later to ready per transaction. */
const COME_DUE_COUNT_MAX = 8;

/** A ready group with its standing. */
export type Candidate = Order & { readonly group: string };

export class GroupIndex {
  readonly #keys: JobKeys;
  /** Promise of the last change in progress, by transaction and group. */
  readonly #changes = new WeakMap<Transaction, Map<string, Promise<void>>>();

  constructor(keys: JobKeys) {
    this.#keys = keys;
  }

  /** Shares and usage of a group. `usageSec` computes the usage at a given time. */
  async standing(tx: ReadTransaction, type: JobType, group: string): Promise<Standing> {
    const value = await tx.get(this.#keys.standing.key({ type, group }));
    return value === undefined ? NO_USAGE : decodeStanding(value);
  }

  async place(tx: ReadTransaction, type: JobType, group: string): Promise<Place> {
    const value = await tx.get(this.#keys.place.key({ type, group }));
    return value === undefined ? { kind: "none" } : decodePlace(value);
  }

  /** Derives a group's index position from the first row of its queue. */
  placeFor(first: KeyValue | undefined): Place {
    if (first === undefined) return { kind: "none" };
    return { kind: "later", dueAtSec: this.#keys.groupPending.unpack(first.key).scheduledAtSec };
  }

  /** The first ready groups, lowest standing first. */
  async candidates(tx: ReadTransaction, type: JobType, limit: number): Promise<Candidate[]> {
    const { entries } = await tx.getRangePage(this.#keys.ready.range({ type }), { limit });
    return entries.map(({ key }) => readyGroup(this.#keys, key));
  }

  /** Groups in the index `later` that have become due. */
  async comeDue(tx: ReadTransaction, type: JobType, dueBySec: number) {
    const range = this.#keys.later.rangeUntil({ type, dueAtSec: dueBySec });
    const { entries } = await tx.getRangePage(range, { limit: COME_DUE_COUNT_MAX });
    return entries.map(({ key }) => this.#keys.later.unpack(key));
  }

  /** Time at which the next group becomes due; undefined if no group is due later. */
  async nextDueSec(tx: ReadTransaction, type: JobType): Promise<number | undefined> {
    const { entries } = await tx.getRangePage(this.#keys.later.range({ type }), { limit: 1 });
    return entries[0] && this.#keys.later.unpack(entries[0].key).dueAtSec;
  }

  /**
   * Moves a group to the index position that `decide` derives from the current position, unless
   * `decide` returns nothing. Requeueing many jobs calls this concurrently in one transaction, so
   * changes of the same group are serialized: otherwise two changes would start from the same
   * position, and the row written by the first would remain.
   */
  change(
    tx: Transaction,
    type: JobType,
    group: string,
    decide: (place: Place) => Place | undefined | Promise<Place | undefined>,
  ): Promise<void> {
    const change = async (): Promise<void> => {
      const place = await this.place(tx, type, group);
      const next = await decide(place);
      if (next !== undefined) await this.move(tx, type, group, place, next);
    };
    let ofTransaction = this.#changes.get(tx);
    if (ofTransaction === undefined) {
      ofTransaction = new Map();
      this.#changes.set(tx, ofTransaction);
    }
    const name = JSON.stringify([type, group]);
    const changed = ofTransaction.get(name)?.then(change, change) ?? change();
    ofTransaction.set(name, changed);
    return changed;
  }

  async move(tx: Transaction, type: JobType, group: string, from: Place, to: Place): Promise<void> {
    tx.addReadConflictKey(this.#keys.place.key({ type, group }));
    const fromKey = await this.#indexKey(tx, type, group, from);
    const toKey = await this.#indexKey(tx, type, group, to);
    if (fromKey !== undefined) tx.clear(fromKey);
    if (toKey !== undefined) tx.set(toKey, EMPTY_BYTES);
    if (to.kind === "none") tx.clear(this.#keys.place.key({ type, group }));
    else tx.set(this.#keys.place.key({ type, group }), encodePlace(to));
  }

  /** Writes a standing, and updates the group's row if it is ready. */
  async restand(
    tx: Transaction,
    type: JobType,
    group: string,
    from: Standing,
    to: Standing,
  ): Promise<void> {
    if (from === to) return;
    tx.set(this.#keys.standing.key({ type, group }), encodeStanding(to));
    if ((await this.place(tx, type, group)).kind !== "ready") return;
    tx.clear(readyKey(this.#keys, type, from, group));
    tx.set(readyKey(this.#keys, type, to, group), EMPTY_BYTES);
  }

  async #indexKey(
    tx: ReadTransaction,
    type: JobType,
    group: string,
    place: Place,
  ): Promise<Key | undefined> {
    if (place.kind === "none") return undefined;
    if (place.kind === "later")
      return this.#keys.later.key({ type, dueAtSec: place.dueAtSec, group });
    return readyKey(this.#keys, type, await this.standing(tx, type, group), group);
  }
}
