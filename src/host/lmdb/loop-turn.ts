/**
 * Duration of the current event-loop turn. LMDB reads are synchronous, so a reader of many pages
 * must yield to the event loop.
 */
import { SLICE_MS } from "../../base/index.ts";

export class LoopTurn {
  /** Start of the first read in the current event-loop turn, if there was one. */
  #beganMs: number | undefined;

  /** Whether the time slice is used up, so that the caller must yield. Called before each read. */
  get isOver(): boolean {
    const nowMs = performance.now();
    if (this.#beganMs !== undefined) return nowMs - this.#beganMs >= SLICE_MS;
    this.#beganMs = nowMs;
    setImmediate(() => {
      this.#beganMs = undefined;
    });
    return false;
  }
}
