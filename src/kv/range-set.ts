/** A set of key texts as disjoint ranges in order: the ranges that a transaction cleared. */
export class RangeSet {
  /** Begins and ends in turn, ascending. */
  readonly #bounds: string[] = [];

  get isEmpty(): boolean {
    return this.#bounds.length === 0;
  }

  /** Adds every key from `begin`, inclusive, to `end`, exclusive; touching ranges become one. */
  add(begin: string, end: string): void {
    if (begin >= end) return;
    const bounds = this.#bounds;
    // An even index lies outside of every range, an odd one inside; a bound that is met joins.
    let from = lowerBound(bounds, begin);
    let to = upperBound(bounds, end);
    let newBegin = begin;
    let newEnd = end;
    if (from % 2 === 1) newBegin = bounds[--from] as string;
    if (to % 2 === 1) newEnd = bounds[to++] as string;
    bounds.splice(from, to - from, newBegin, newEnd);
  }

  /** Takes every key from `begin`, inclusive, to `end`, exclusive, out of the set. */
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

/** How many of the sorted `bounds` lie before `key`. */
function lowerBound(bounds: readonly string[], key: string): number {
  let low = 0;
  let high = bounds.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((bounds[middle] as string) < key) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** How many of the sorted `bounds` do not lie behind `key`. */
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
