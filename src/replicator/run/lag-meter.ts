/**
 * Measures how long the oldest pending change has been known to a run. Changes are counted in feed
 * order from the start of the run. A mark records the number of changes known at a certain time.
 * The first mark whose number exceeds the number of arrived changes determines the lag. Pure.
 */

/** Changes discovered within this time share a mark. */
const MARK_MS_MIN = 1000;
/**
 * Maximum number of marks. When it is exceeded, every second mark is dropped. The error of a long
 * lag is then at most one thirtieth of the lag.
 */
const MARKS_MAX = 64;
/** Number of marks below which the interval between marks is halved. */
const MARKS_MIN = 16;

interface Mark {
  readonly timeMs: number;
  /** Number of changes known at `timeMs`; infinite if unknown. */
  count: number;
}

export class LagMeter {
  #marks: Mark[] = [];
  #readCount = 0;
  #arrivedCount = 0;
  #isKnown = false;
  #stepMs = MARK_MS_MIN;

  /** `earlier` is the backlog that was known before this run, if any. */
  constructor(
    earlier?: { readonly sinceMs: number; readonly pending: number | undefined } | undefined,
  ) {
    if (earlier === undefined) return;
    this.#isKnown = true;
    this.#marks.push({
      timeMs: earlier.sinceMs,
      count: earlier.pending ?? Number.POSITIVE_INFINITY,
    });
  }

  /**
   * Whether the lag is known: changes have been read or counted, or were already pending before the
   * run.
   */
  get isKnown(): boolean {
    return this.#isKnown;
  }

  /** Number of changes that have arrived or are listed as failures. */
  get arrivedCount(): number {
    return this.#arrivedCount;
  }

  /**
   * Time at which the oldest pending change was discovered; undefined if no changes are pending.
   */
  get sinceMs(): number | undefined {
    return this.#marks[0]?.timeMs;
  }

  /** Records changes read from the feed. */
  read(count: number, nowMs: number): void {
    if (count === 0) return;
    this.#readCount += count;
    this.#learn(this.#readCount, nowMs);
  }

  /** Records changes that have arrived, in feed order. */
  arrived(count: number): void {
    this.#arrivedCount += count;
    this.#forgetArrived();
  }

  /**
   * Discards the count of changes that were read but have not arrived, because the feed is read
   * again from its start.
   */
  startOver(): void {
    this.#readCount = this.#arrivedCount;
  }

  /**
   * Records the number of pending changes that the source reported when `arrivedCount` changes had
   * arrived. `pending` is undefined if the source did not report it.
   */
  announced(arrivedCount: number, pending: number | undefined, nowMs: number): void {
    this.#isKnown = true;
    const count = Math.max(this.#readCount, arrivedCount + (pending ?? 0));
    // A mark can exceed the source's count, because some of the changes that the mark counts were
    // superseded or do not match the filter.
    for (const mark of this.#marks) mark.count = Math.min(mark.count, count);
    this.#forgetArrived();
    this.#learn(count, nowMs);
  }

  #learn(count: number, nowMs: number): void {
    this.#isKnown = true;
    const last = this.#marks.at(-1);
    if (count <= (last?.count ?? this.#arrivedCount)) return;
    if (last !== undefined && nowMs - last.timeMs < this.#stepMs) {
      last.count = count;
      return;
    }
    this.#marks.push({ timeMs: nowMs, count });
    if (this.#marks.length > MARKS_MAX) this.#thinOut();
  }

  #forgetArrived(): void {
    this.#marks = this.#marks.filter(({ count }) => count > this.#arrivedCount);
    if (this.#marks.length < MARKS_MIN) this.#stepMs = Math.max(MARK_MS_MIN, this.#stepMs / 2);
  }

  #thinOut(): void {
    const thinned: Mark[] = [];
    for (const [index, mark] of this.#marks.entries()) {
      const earlier = thinned.at(-1);
      if (index % 2 === 1 && earlier !== undefined) earlier.count = mark.count;
      else thinned.push(mark);
    }
    this.#marks = thinned;
    this.#stepMs *= 2;
  }
}
