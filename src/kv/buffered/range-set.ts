/** A set of key texts as disjoint ranges in order: the ranges that a transaction cleared. */
import { lowerBound } from "./sorted-map.ts";

export class RangeSet {
  /** Begins and ends of the ranges, alternating, in ascending order. */
  readonly #bounds: string[] = [];

  get isEmpty(): boolean {
    return this.#bounds.length === 0;
  }

  /** Adds every key from `begin` (inclusive) to `end` (exclusive). Adjacent ranges are merged. */
  add(begin: string, end: string): void {
    if (begin >= end) return;
    const bounds = this.#bounds;
    // In `bounds`, starts and ends of ranges alternate. A bound that would be inserted at an odd
    // position is inside a range (or touches it); this range is then extended.
    let from = lowerBound(bounds, begin);
    let to = upperBound(bounds, end);
    let newBegin = begin;
    let newEnd = end;
    if (from % 2 === 1) newBegin = bounds[--from] as string;
    if (to % 2 === 1) newEnd = bounds[to++] as string;
    bounds.splice(from, to - from, newBegin, newEnd);
  }

  /** Removes every key from `begin` (inclusive) to `end` (exclusive). */
  remove(begin: string, end: string): void {
    if (begin >= end) return;
    const bounds = this.#bounds;
    const from = lowerBound(bounds, begin);
    const to = upperBound(bounds, end);
    const cut: string[] = [];
    if (from % 2 === 1) cut.push(begin);
    if (to % 2 === 1) cut.push(end);
    bounds.splice(from, to - from, ...cut);
  }

  contains(key: string): boolean {
    return upperBound(this.#bounds, key) % 2 === 1;
  }

  overlaps(begin: string, end: string): boolean {
    if (begin >= end || this.#bounds.length === 0) return false;
    const at = upperBound(this.#bounds, begin);
    if (at % 2 === 1) return true;
    return at < this.#bounds.length && (this.#bounds[at] as string) < end;
  }

  *ranges(): Iterable<{ readonly begin: string; readonly end: string }> {
    for (let index = 0; index < this.#bounds.length; index += 2) {
      yield { begin: this.#bounds[index] as string, end: this.#bounds[index + 1] as string };
    }
  }
}

/** Number of sorted `bounds` less than or equal to `key`. */
function upperBound(bounds: readonly string[], key: string): number {
  let low = 0;
  let high = bounds.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((bounds[middle] as string) <= key) low = middle + 1;
    else high = middle;
  }
  return low;
}
