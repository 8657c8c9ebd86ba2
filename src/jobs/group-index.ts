/**
 * The places of the groups of which jobs are pending. Each has its place, and by it a row in one of two indexes:
 *
 *   none    no job of the group is pending
 *   later   all its pending jobs are due in the future: in the index by the earliest of these times
 *   ready   it has a job that is due: in the index by its standing
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
import type { JobKeys } from "./job-keys.ts";
import { NO_USAGE, type Order, type Standing } from "./standing.ts";

/** Groups that an acceptor moves from later to ready when their time has come. */
const COME_DUE_COUNT_MAX = 8;

/** A ready group and its standing. */
export type Candidate = Order & { readonly group: string };

export class GroupIndex {
  readonly #keys: JobKeys;
  /** By transaction and group, the end of the last change that was begun. */
  readonly #changes = new WeakMap<Transaction, Map<string, Promise<void>>>();

  constructor(keys: JobKeys) {
    this.#keys = keys;
  }

  /** Shares and usage of a group; `usageSec` tells how much that is at a given time. */
  async standing(tx: ReadTransaction, type: JobType, group: string): Promise<Standing> {
    const value = await tx.get(this.#keys.standing(type, group));
    return value === undefined ? NO_USAGE : decodeStanding(value);
  }

  async place(tx: ReadTransaction, type: JobType, group: string): Promise<Place> {
    const value = await tx.get(this.#keys.place(type, group));
    return value === undefined ? { kind: "none" } : decodePlace(value);
  }

  /** The place of a group whose queue begins with this row. */
  placeFor(first: KeyValue | undefined): Place {
    if (first === undefined) return { kind: "none" };
    return { kind: "later", dueAtSec: this.#keys.queued(first.key).scheduledAtSec };
  }

  /** The first ready groups, lowest standing first. */
  async candidates(tx: ReadTransaction, type: JobType, limit: number): Promise<Candidate[]> {
    const { entries } = await tx.getRangePage(this.#keys.readyGroups(type), { limit });
    return entries.map(({ key }) => this.#keys.readyGroup(key));
  }

  /** Groups that wait in the index by time although their time has come. */
  async comeDue(tx: ReadTransaction, type: JobType, dueBySec: number) {
    const range = this.#keys.laterGroupsUntil(type, dueBySec);
    const { entries } = await tx.getRangePage(range, { limit: COME_DUE_COUNT_MAX });
    return entries.map(({ key }) => this.#keys.laterGroup(key));
  }

  /** When the next group comes due that is not due yet; undefined when all are, or there is none. */
  async nextDueSec(tx: ReadTransaction, type: JobType): Promise<number | undefined> {
    const { entries } = await tx.getRangePage(this.#keys.laterGroups(type), { limit: 1 });
    return entries[0] && this.#keys.laterGroup(entries[0].key).dueAtSec;
  }

  /**
   * Gives a group the place that `decide` makes of the one it has, or leaves it where it is. Who requeues many jobs does it side by
   * side in one transaction, so the changes of a group wait for each other: else two would begin from the same place, and what the
   * first wrote would stay in the index.
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
    tx.addReadConflictKey(this.#keys.place(type, group));
    const fromKey = await this.#indexKey(tx, type, group, from);
    const toKey = await this.#indexKey(tx, type, group, to);
    if (fromKey !== undefined) tx.clear(fromKey);
    if (toKey !== undefined) tx.set(toKey, EMPTY_BYTES);
    if (to.kind === "none") tx.clear(this.#keys.place(type, group));
    else tx.set(this.#keys.place(type, group), encodePlace(to));
  }

  /** Writes a standing, and the group's row in the index if it is there. */
  async restand(
    tx: Transaction,
    type: JobType,
    group: string,
    from: Standing,
    to: Standing,
  ): Promise<void> {
    if (from === to) return;
    tx.set(this.#keys.standing(type, group), encodeStanding(to));
    if ((await this.place(tx, type, group)).kind !== "ready") return;
    tx.clear(this.#keys.ready(type, from, group));
    tx.set(this.#keys.ready(type, to, group), EMPTY_BYTES);
  }

  async #indexKey(
    tx: ReadTransaction,
    type: JobType,
    group: string,
    place: Place,
  ): Promise<Key | undefined> {
    if (place.kind === "none") return undefined;
    if (place.kind === "later") return this.#keys.later(type, place.dueAtSec, group);
    return this.#keys.ready(type, await this.standing(tx, type, group), group);
  }
}
