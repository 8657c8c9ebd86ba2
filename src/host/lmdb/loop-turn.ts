/**
 * How long this turn of the event loop has lasted. Reads of LMDB are synchronous: whoever reads page after page goes from promise to
 * promise, and nobody else is served before the end, were it a hundred thousand pages later.
 */

/** Nobody notices so short a wait, and the price of giving way is small beside it. */
const TURN_MS = 10;

export class LoopTurn {
  /** Of the turn in which something was read last; undefined: that one is over. */
  #beganMs: number | undefined;

  /** Whether others have waited long enough. Asked before something is read. */
  get isOver(): boolean {
    const nowMs = performance.now();
    if (this.#beganMs !== undefined) return nowMs - this.#beganMs >= TURN_MS;
    this.#beganMs = nowMs;
    setImmediate(() => {
      this.#beganMs = undefined;
    });
    return false;
  }

  /** Resolves in the next turn. */
  next(): Promise<void> {
    return new Promise((resolve) => {
      setImmediate(resolve);
    });
  }
}
