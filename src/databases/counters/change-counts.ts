/**
 * Counts the documents that changed after a sequence, without reading all changes, and without
 * conflicts between writers.
 *
 * The update sequence grows at its end, but documents leave their old positions in its middle.
 * *Boundaries* therefore divide it into parts, and *partial counts* (`share` in the code) are
 * stored as counters at versionstamps. The invariant, for every boundary, at any time:
 *
 *   the sum of the partial counts at and after the boundary  =  the number of changes after it.
 *
 * To count the changes after a sequence, a reader scans up to the next boundary, and adds the
 * partial counts at and after that boundary. Every step preserves the invariant:
 *
 * - Each transaction writes the number of its changes as a partial count, at its own versionstamp
 *   and before its changes.
 * - A writer that moves an old change decrements the partial count at the last boundary before the
 *   change. A writer that cannot read boundaries decrements a partial count at the change's own
 *   position. Any position is correct if no boundary lies between that position and the change. A
 *   writer that read an old state of the store is also correct, because new boundaries are added
 *   only after all changes that it can move.
 * - A few transactions, chosen at random, make their versionstamp a boundary.
 * - Some of these transactions also sweep (`change-sweep.ts`): they merge partial counts into
 *   preceding ones, and clear redundant boundaries.
 *
 * Only sweeps read the partial counts of other transactions. The counts that they read are rarely
 * written, except by other sweeps.
 */
import type { Random } from "../../base/index.ts";
import {
  firstGreaterThan,
  type Key,
  type KeyRange,
  type ReadTransaction,
  type Transaction,
  type Versionstamp,
} from "../../kv/index.ts";
import { decodeCounter, encodeCounter, readCounter } from "../records/counter-record.ts";
import type { DatabaseKeys } from "../records/database-keys.ts";
import type { Share, TransactionState } from "../transaction-state.ts";
import { latestBoundaries, sweepShares } from "./change-sweep.ts";
import type { CounterDeltas } from "./counter-deltas.ts";

/**
 * Average number of changes between two new boundaries. A smaller value shortens scans, but leaves
 * more partial counts to add. Therefore, sweeps increase the spacing to the square root of the
 * number of changes.
 */
const SPACING = 500;
/**
 * Average number of new boundaries per sweep. More than one, because concurrent sweeps conflict and
 * every writer of a large batch adds a boundary.
 */
const BOUNDARIES_PER_SWEEP = 4;
/**
 * Number of latest boundaries that are read together, because most changes that move are recent.
 */
const RECENT_MAX = 16;
const COUNT_PAGE_ROWS = 2_000;

export class ChangeCounts {
  readonly #keys: DatabaseKeys;
  readonly #random: Random;
  readonly #spacing: number;

  constructor(keys: DatabaseKeys, random: Random, spacing = SPACING) {
    this.#keys = keys;
    this.#random = random;
    this.#spacing = spacing;
  }

  /**
   * Called before the reads of a batch. First takes a user version for the partial count, so that
   * the partial count precedes the changes.
   */
  async begin(tx: Transaction, state: TransactionState, editCount: number): Promise<void> {
    const isBoundary = this.#random.integer(this.#spacing) < editCount;
    state.share ??= {
      userVersion: tx.nextUserVersion(),
      changeCount: 0,
      isBoundary: false,
      isWritten: false,
      recent: undefined,
      swept: isBoundary ? this.#sweepSometimes(tx) : Promise.resolve(),
    };
    if (isBoundary) state.share.isBoundary = true;
    // All concurrent batches of the transaction wait for the sweep, because the sweep must read
    // before any batch writes.
    await state.share.swept;
  }

  /**
   * Returns, for each change, the partial count that must be decremented when the change moves;
   * undefined for a change that has not been counted.
   */
  async prepareLeave(
    tx: Transaction,
    state: TransactionState,
    versionstamps: readonly (Versionstamp | undefined)[],
  ): Promise<(Key | undefined)[]> {
    const places: (Key | undefined)[] = versionstamps.map(() => undefined);
    if (versionstamps.every((versionstamp) => versionstamp === undefined)) return places;
    const leaving = [...versionstamps.entries()].flatMap(([index, versionstamp]) =>
      versionstamp === undefined ? [] : [{ index, versionstamp }],
    );
    // Newest first, so that consecutive changes between the same two boundaries need only one read.
    leaving.sort((left, right) => right.versionstamp.compare(left.versionstamp));
    let found: Versionstamp | undefined;
    for (const { index, versionstamp } of leaving) {
      if (found === undefined || found.compare(versionstamp) > 0) {
        const boundary = await this.#boundaryBefore(tx, state, versionstamp);
        // No boundary precedes this change, so neither it nor older ones are counted.
        if (boundary === undefined) break;
        found = boundary;
      }
      places[index] = this.#keys.share.key({ versionstamp: found });
    }
    return places;
  }

  /** Decrements the partial count found by `prepareLeave`, because a change leaves its position. */
  leave(place: Key | undefined, deltas: CounterDeltas): void {
    if (place !== undefined) deltas.addAt(place, -1);
  }

  enter(state: TransactionState): void {
    if (state.share !== undefined) state.share.changeCount++;
  }

  /**
   * Writes the partial count; called after the changes of each batch. A later call in the same
   * transaction replaces the value under the same key.
   */
  finish(tx: Transaction, state: TransactionState): void {
    const { share } = state;
    if (share === undefined || share.changeCount === 0) return;
    const { userVersion, changeCount, isBoundary } = share;
    tx.setVersionstampedKey(this.#keys.share.newKey({}, userVersion), encodeCounter(changeCount));
    if (isBoundary) tx.setVersionstampedKey(this.#keys.boundary.newKey({}, userVersion), NOTHING);
    share.isWritten = true;
  }

  /**
   * Returns the number of changes after `versionstamp`; of all changes if `versionstamp` is
   * undefined.
   */
  async countAfter(tx: ReadTransaction, versionstamp: Versionstamp | undefined): Promise<number> {
    if (versionstamp === undefined) {
      const counters = ["documents", "deletedDocuments"] as const;
      const counts = await Promise.all(counters.map((name) => readCounter(tx, this.#keys, name)));
      return counts.reduce((total, count) => total + count, 0);
    }
    return (await this.countsAfter(tx, [versionstamp]))[0] as number;
  }

  /**
   * Like `countAfter`, for several versionstamps in ascending order. Reads each partial count once.
   */
  async countsAfter(
    { snapshot }: ReadTransaction,
    versionstamps: readonly Versionstamp[],
  ): Promise<number[]> {
    const parts = await Promise.all(versionstamps.map((stamp) => this.#countNear(snapshot, stamp)));
    const counts: number[] = [];
    let { end } = this.#keys.share.range();
    let farCount = 0;
    for (const { boundary, count } of parts.toReversed()) {
      if (boundary !== undefined) {
        const begin = this.#keys.share.key({ versionstamp: boundary });
        farCount += await this.#sum(snapshot, { begin, end });
        end = begin;
      }
      counts.push(count + farCount);
    }
    return counts.reverse();
  }

  /** Counts the changes between the versionstamp and the next boundary. */
  async #countNear(snapshot: ReadTransaction, versionstamp: Versionstamp) {
    const boundaries = {
      begin: firstGreaterThan(this.#keys.boundary.key({ versionstamp })),
      end: this.#keys.boundary.range().end,
    };
    const [next] = (await snapshot.getRangePage(boundaries, { limit: 1 })).entries;
    const begin = firstGreaterThan(this.#keys.change.key({ versionstamp }));
    const boundary = next && this.#keys.boundary.unpack(next.key).versionstamp;
    const end =
      boundary === undefined
        ? this.#keys.change.range().end
        : this.#keys.change.key({ versionstamp: boundary });
    return { boundary, count: await countRows(snapshot, { begin, end }) };
  }

  /**
   * Returns the last boundary before a change, or the change's own position if boundaries cannot be
   * read.
   */
  async #boundaryBefore(
    tx: Transaction,
    state: TransactionState,
    versionstamp: Versionstamp,
  ): Promise<Versionstamp | undefined> {
    const share = state.share as Share;
    if (share.recent === undefined && share.isWritten) return versionstamp;
    share.recent ??= latestBoundaries(tx, this.#keys, RECENT_MAX);
    const recent = await share.recent;
    const found = recent.find((boundary) => boundary.compare(versionstamp) < 0);
    if (found !== undefined || recent.length < RECENT_MAX) return found;
    if (share.isWritten) return versionstamp;
    const { begin } = this.#keys.boundary.range();
    const range = { begin, end: this.#keys.boundary.key({ versionstamp }) };
    const [row] = (await tx.snapshot.getRangePage(range, { limit: 1, reverse: true })).entries;
    return row === undefined ? undefined : this.#keys.boundary.unpack(row.key).versionstamp;
  }

  async #sweepSometimes(tx: Transaction): Promise<void> {
    if (this.#random.integer(BOUNDARIES_PER_SWEEP) !== 0) return;
    const changeCount = await this.countAfter(tx.snapshot, undefined);
    const spacing = Math.max(this.#spacing, Math.floor(Math.sqrt(changeCount)));
    await sweepShares(tx, this.#keys, spacing);
  }

  async #sum(tx: ReadTransaction, range: KeyRange): Promise<number> {
    let sum = 0;
    for await (const { value } of tx.getRange(range)) sum += decodeCounter(value);
    return sum;
  }
}

const NOTHING = new Uint8Array(0);

async function countRows(tx: ReadTransaction, range: KeyRange): Promise<number> {
  let rowCount = 0;
  let begin = range.begin;
  for (;;) {
    const page = await tx.getRangePage({ begin, end: range.end }, { limit: COUNT_PAGE_ROWS });
    rowCount += page.entries.length;
    const last = page.entries.at(-1);
    if (page.stoppedBy === "exhausted" || last === undefined) return rowCount;
    begin = firstGreaterThan(last.key);
  }
}
