/**
 * Measures since when a run has known of the oldest change that has not arrived. It counts changes in the order of the source's
 * feed, from where the run began. A mark says that at a time so many were known; the first mark that is above what has arrived is
 * the one that counts. Pure.
 */

/** Changes that become known within so much of each other count as known since the first. */
const MARK_MS_MIN = 1000;
/** With more marks, each other one goes, and they are set half as often: a long lag is exact to a thirtieth. */
const MARKS_MAX = 64;
/** With fewer they are set more often again. */
const MARKS_MIN = 16;

interface Mark {
  readonly timeMs: number;
  /** So many were known; infinite: an unknown number. */
  count: number;
}

export class LagMeter {
  #marks: Mark[] = [];
  #readCount = 0;
  #arrivedCount = 0;
  #isKnown = false;
  #stepMs = MARK_MS_MIN;

  /** `earlier`: what an earlier run or a question has left, if anything had not arrived. */
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

  /** Whether `sinceMs` says something. */
  get isKnown(): boolean {
    return this.#isKnown;
  }

  /** How many have arrived, or are listed as failures. */
  get arrivedCount(): number {
    return this.#arrivedCount;
  }

  /** Since when the oldest change has been known that has not arrived; undefined: all that are known have. */
  get sinceMs(): number | undefined {
    return this.#marks[0]?.timeMs;
  }

  /** So many more changes were read from the feed. */
  read(count: number, nowMs: number): void {
    if (count === 0) return;
    this.#readCount += count;
    this.#learn(this.#readCount, nowMs);
  }

  /** So many more changes have arrived, in the order of the feed. */
  arrived(count: number): void {
    this.#arrivedCount += count;
    this.#forgetArrived();
  }

  /** What was read and has not arrived will be read again. */
  startOver(): void {
    this.#readCount = this.#arrivedCount;
  }

  /** When `arrivedCount` had arrived, so many were pending by the source's own count; undefined: it could not say. */
  announced(arrivedCount: number, pending: number | undefined, nowMs: number): void {
    this.#isKnown = true;
    const count = Math.max(this.#readCount, arrivedCount + (pending ?? 0));
    // What was known before, and is not there any more, was replaced by later changes, or does not match the filter.
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
