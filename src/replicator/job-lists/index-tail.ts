/**
 * The tail of the event log: changes not yet folded into the rows and counters of the index. A
 * reader applies them to the rows and counters that it reads (`IndexView`); a fold writes the
 * result. The tail is cached, so that readers load only new events. A tail that is too long for
 * memory must be folded first.
 *
 * The cache is a gapless part of the log from `#afterId` to `#lastId`. Events never change, so a
 * reader of any snapshot uses the events its snapshot contains, and reads the log if its snapshot
 * is older than the cache.
 */
import type { ReadTransaction } from "../../kv/index.ts";
import type { JobEventLog, StatusChange, StatusEvent } from "../job-log/job-event-log.ts";
import { RowChanges, type StatusKeyCache } from "./row-changes.ts";

/** Range of the events in a tail. */
interface Bounds {
  readonly foldedId: string;
  readonly lastId: string;
}

export class IndexTail {
  readonly #log: JobEventLog;
  readonly #statusKeys: StatusKeyCache;
  #events: readonly StatusEvent[] = [];
  #afterId = "";
  #lastId = "";
  /** The last tail returned. It is usually requested again before anything has changed. */
  #known: { readonly bounds: Bounds; readonly changes: RowChanges } | undefined;

  constructor(log: JobEventLog, statusKeys: StatusKeyCache) {
    this.#log = log;
    this.#statusKeys = statusKeys;
  }

  /**
   * Returns the changes missing from the index in this snapshot; undefined if the tail has more
   * than `eventCountMax` events.
   */
  async changes(tx: ReadTransaction, eventCountMax: number): Promise<RowChanges | undefined> {
    const bounds = await this.#bounds(tx);
    const known = this.#known;
    if (known !== undefined && areSame(known.bounds, bounds)) return known.changes;
    const events = await this.#between(tx, bounds, eventCountMax);
    if (events === undefined) return undefined;
    const changes = this.changesOf(events);
    this.#known = { bounds, changes };
    return changes;
  }

  changesOf(events: readonly StatusEvent[]): RowChanges {
    const changes = events.flatMap(({ change }): StatusChange[] => (change ? [change] : []));
    return RowChanges.of(changes, this.#statusKeys);
  }

  async #bounds(tx: ReadTransaction): Promise<Bounds> {
    const [foldedId, lastId] = await Promise.all([
      this.#log.foldedId(tx.snapshot),
      this.#log.lastId(tx.snapshot),
    ]);
    return { foldedId, lastId };
  }

  async #between(
    tx: ReadTransaction,
    { foldedId, lastId }: Bounds,
    eventCountMax: number,
  ): Promise<readonly StatusEvent[] | undefined> {
    if (foldedId >= lastId) return [];
    if (foldedId < this.#afterId) return this.#read(tx, foldedId, lastId, eventCountMax);
    if (foldedId > this.#lastId) this.#restart(foldedId);
    if (lastId > this.#lastId) {
      const room = eventCountMax - this.#within(foldedId, lastId).length;
      const read = await this.#read(tx, this.#lastId, lastId, room);
      if (read === undefined) return undefined;
      // During the read, another reader might have dropped cached events. In that case, read all
      // events again.
      if (foldedId < this.#afterId) return this.#read(tx, foldedId, lastId, eventCountMax);
      this.#append(read, lastId);
    }
    const found = this.#within(foldedId, lastId);
    this.#drop(foldedId);
    return found;
  }

  /** Reads a tail. Returns undefined if it has more than `eventCountMax` events. */
  async #read(
    tx: ReadTransaction,
    afterId: string,
    lastId: string,
    eventCountMax: number,
  ): Promise<readonly StatusEvent[] | undefined> {
    const limit = eventCountMax + 1;
    const events = await this.#log.statusEvents(tx, afterId, lastId, limit);
    return events.length < limit ? events : undefined;
  }

  #within(afterId: string, lastId: string): readonly StatusEvent[] {
    return this.#events.filter(({ id }) => id > afterId && id <= lastId);
  }

  #restart(afterId: string): void {
    this.#events = [];
    this.#afterId = afterId;
    this.#lastId = afterId;
  }

  #append(read: readonly StatusEvent[], lastId: string): void {
    const known = this.#lastId;
    if (lastId <= known) return;
    this.#events = [...this.#events, ...read.filter(({ id }) => id > known)];
    this.#lastId = lastId;
  }

  /**
   * Drops the cached events up to `foldedId`, because the index of all later snapshots contains
   * them.
   */
  #drop(foldedId: string): void {
    if (foldedId <= this.#afterId) return;
    this.#events = this.#events.filter(({ id }) => id > foldedId);
    this.#afterId = foldedId;
  }
}

function areSame(left: Bounds, right: Bounds): boolean {
  return left.foldedId === right.foldedId && left.lastId === right.lastId;
}
