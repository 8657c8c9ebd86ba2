/**
 * How many documents changed after a sequence, without counting them all.
 *
 * The update sequence grows at its end, but documents leave their old places in its middle. So it is cut by boundaries, each
 * with a counter of the changes between the boundary before it and itself; what lies behind the last boundary has a counter
 * of its own, the open one. A write adds one to the open counter and takes one from the counter of the place it leaves.
 * Counting from a sequence scans to the next boundary only, and adds up counters behind it.
 *
 * Boundaries are drawn by writers, before their own changes, when the open part has grown long: the open counter's value
 * becomes the boundary's, the transaction's versionstamp its place. This reads the open counter, so it conflicts with all
 * who write at that moment; therefore it is rare, and left to chance among those who could. Whoever moves an older change
 * reads where the last boundary is, and so is retried when one was drawn meanwhile. That also makes it safe to join old
 * neighbours, whose changes have mostly moved on, in the same breath.
 */
import type { Random } from "../base/index.ts";
import {
  firstGreaterOrEqual,
  firstGreaterThan,
  type Key,
  type KeyRange,
  type ReadTransaction,
  type Transaction,
  type Versionstamp,
} from "../kv/index.ts";
import type { CounterDeltas } from "./counter-deltas.ts";
import {
  decodeCounter,
  decodeLastBoundary,
  encodeCounter,
  encodeLastBoundary,
  type LastBoundary,
  readCounter,
} from "./counter-record.ts";
import type { DatabaseKeys } from "./database-keys.ts";
import type { TransactionState } from "./transaction-state.ts";

/** A boundary is drawn after so many changes at the earliest: shorter scans against more counters and more conflicts. */
const OPEN_CHANGES_MIN = 500;
/** One writer in so many draws it then. */
const DRAWERS = 4;
/** Boundaries that one draw looks at, to join small ones: more than it adds, so that sweeping keeps up. */
const SWEEP_ROWS_MAX = 32;
const PAGE_ROWS_MAX = 2_000;

export class ChangeCounts {
  readonly #keys: DatabaseKeys;
  readonly #random: Random;

  constructor(keys: DatabaseKeys, random: Random) {
    this.#keys = keys;
    this.#random = random;
  }

  /** Draws a boundary if it is time. Called before a transaction's first write in the database; once, however often called. */
  drawBoundary(tx: Transaction, state: TransactionState): Promise<void> {
    state.drawing ??= this.#drawBoundary(tx, state);
    return state.drawing;
  }

  /** Takes a change from the count of the place it leaves, which `prepareLeave` found. */
  leave(tx: Transaction, state: TransactionState, place: LeftPlace, deltas: CounterDeltas): void {
    if (place.kind === "boundary") deltas.addAt(place.key, -1);
    else if (state.boundary === undefined) deltas.add("openChanges", -1);
    else {
      state.boundary.changeCount--;
      this.#setBoundary(tx, state.boundary);
    }
  }

  /** Finds the counters that count stored changes: in the order of the arguments. */
  async prepareLeave(
    tx: Transaction,
    state: TransactionState,
    versionstamps: readonly (Versionstamp | undefined)[],
  ): Promise<(LeftPlace | undefined)[]> {
    const places: (LeftPlace | undefined)[] = versionstamps.map(() => undefined);
    const leaving = [...versionstamps.entries()].flatMap(([index, versionstamp]) =>
      versionstamp === undefined ? [] : [{ index, versionstamp }],
    );
    if (leaving.length === 0) return places;
    // In order, those that leave from between two boundaries follow each other, and share one read.
    leaving.sort((left, right) => left.versionstamp.compare(right.versionstamp));
    const last = (await this.#lastBoundary(tx, state))?.versionstamp;
    let boundary: { readonly key: Key; readonly versionstamp: Versionstamp } | undefined;
    for (const { index, versionstamp } of leaving) {
      if (last === undefined || versionstamp.compare(last) > 0) {
        places[index] = { kind: "open" };
        continue;
      }
      if (boundary === undefined || versionstamp.compare(boundary.versionstamp) > 0) {
        const key = await this.#boundaryBehind(tx, versionstamp, last);
        boundary = { key, versionstamp: this.#keys.boundaryVersionstamp(key) };
      }
      places[index] = { kind: "boundary", key: boundary.key };
    }
    return places;
  }

  /** Counts a change at the end of the sequence. */
  enter(deltas: CounterDeltas): void {
    deltas.add("openChanges", 1);
  }

  /** How many changes stand behind the versionstamp; all without one. */
  async countAfter(tx: ReadTransaction, versionstamp: Versionstamp | undefined): Promise<number> {
    const { snapshot } = tx;
    const changes = this.#keys.changes();
    if (versionstamp === undefined) {
      const counters = ["documents", "deletedDocuments"] as const;
      const counts = await Promise.all(counters.map((name) => readCounter(tx, this.#keys, name)));
      return counts.reduce((total, count) => total + count, 0);
    }
    const last = (await this.#readLastBoundary(snapshot))?.versionstamp;
    const begin = firstGreaterThan(this.#keys.change(versionstamp));
    if (last === undefined || versionstamp.compare(last) >= 0) {
      return await countRows(snapshot, { begin, end: changes.end });
    }
    const boundaryKey = await snapshot.getKey(
      firstGreaterOrEqual(this.#keys.boundary(versionstamp)),
    );
    const boundary = this.#keys.boundaryVersionstamp(boundaryKey);
    const [near, far, open] = await Promise.all([
      countRows(snapshot, { begin, end: firstGreaterThan(this.#keys.change(boundary)) }),
      this.#sum(snapshot, {
        begin: firstGreaterThan(boundaryKey),
        end: this.#keys.boundaries().end,
      }),
      readCounter(tx, this.#keys, "openChanges"),
    ]);
    return near + far + open;
  }

  async #drawBoundary(tx: Transaction, state: TransactionState): Promise<void> {
    const openCount = await readCounter(tx, this.#keys, "openChanges");
    if (openCount < OPEN_CHANGES_MIN || this.#random.integer(DRAWERS) > 0) return;
    const counterKey = this.#keys.counter("openChanges");
    const changeCount = decodeCounter(await tx.get(counterKey));
    // Whether a change lies before the last boundary is asked of the store, so it is read before it moves.
    const last = await this.#lastBoundary(tx, state);
    const sweptTo = await this.#joinSmall(tx, last);
    state.boundary = { userVersion: tx.nextUserVersion(), changeCount };
    tx.set(counterKey, encodeCounter(0));
    tx.setVersionstampedValue(
      this.#keys.lastBoundary(),
      encodeLastBoundary(state.boundary.userVersion, sweptTo),
    );
    this.#setBoundary(tx, state.boundary);
  }

  /**
   * Joins neighbours that have become small, a page of them at each draw, from where the last sweep ended; so there never
   * are many more than the changes need. Returns where this sweep ended; undefined at the end of all.
   */
  async #joinSmall(
    tx: Transaction,
    last: LastBoundary | undefined,
  ): Promise<Versionstamp | undefined> {
    if (last === undefined) return undefined;
    const { begin } = this.#keys.boundaries();
    const page = await tx.getRangePage(
      {
        begin: last.sweptTo === undefined ? begin : this.#keys.boundary(last.sweptTo),
        // The last one stays: it is named elsewhere.
        end: this.#keys.boundary(last.versionstamp),
      },
      { limit: SWEEP_ROWS_MAX },
    );
    let below: { readonly key: Key; readonly count: number } | undefined;
    for (const { key, value } of page.entries) {
      const count = decodeCounter(value);
      if (below === undefined || below.count + count > OPEN_CHANGES_MIN) {
        below = { key, count };
        continue;
      }
      tx.clear(below.key);
      tx.set(key, encodeCounter(below.count + count));
      below = { key, count: below.count + count };
    }
    const isLast = page.stoppedBy === "exhausted" || below === undefined;
    return isLast ? undefined : this.#keys.boundaryVersionstamp(below?.key as Key);
  }

  /** The same key again with another count: the last one is what the commit writes. */
  #setBoundary(tx: Transaction, boundary: { userVersion: number; changeCount: number }): void {
    const key = this.#keys.newBoundary(boundary.userVersion);
    tx.setVersionstampedKey(key, encodeCounter(boundary.changeCount));
  }

  /** The boundary at or behind a change that does not stand behind the last one. */
  async #boundaryBehind(
    tx: Transaction,
    versionstamp: Versionstamp,
    last: Versionstamp,
  ): Promise<Key> {
    // Short of the last one: from there on, this transaction's own boundary makes the store unreadable.
    const lastKey = this.#keys.boundary(last);
    const range = { begin: this.#keys.boundary(versionstamp), end: lastKey };
    const page = await tx.snapshot.getRangePage(range, { limit: 1 });
    return page.entries[0]?.key ?? lastKey;
  }

  /** As it was before this transaction, which may draw another. */
  #lastBoundary(tx: Transaction, state: TransactionState): Promise<LastBoundary | undefined> {
    state.lastBoundary ??= this.#readLastBoundary(tx);
    return state.lastBoundary;
  }

  async #readLastBoundary(tx: ReadTransaction): Promise<LastBoundary | undefined> {
    const value = await tx.get(this.#keys.lastBoundary());
    return value === undefined ? undefined : decodeLastBoundary(value);
  }

  async #sum(tx: ReadTransaction, range: KeyRange): Promise<number> {
    let sum = 0;
    for await (const { value } of tx.getRange(range)) sum += decodeCounter(value);
    return sum;
  }
}

/** Where a change was counted before it moved. */
export type LeftPlace =
  | { readonly kind: "open" }
  | { readonly kind: "boundary"; readonly key: Uint8Array };

async function countRows(tx: ReadTransaction, range: KeyRange): Promise<number> {
  let rowCount = 0;
  let begin = range.begin;
  for (;;) {
    const page = await tx.getRangePage({ begin, end: range.end }, { limit: PAGE_ROWS_MAX });
    rowCount += page.entries.length;
    const last = page.entries.at(-1);
    if (page.stoppedBy === "exhausted" || last === undefined) return rowCount;
    begin = firstGreaterThan(last.key);
  }
}
