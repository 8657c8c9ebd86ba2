/** Lets long work yield to the event loop, which awaiting a resolved promise does not do. */
import type { Clock } from "./runtime.ts";

/**
 * Longest time without yielding. Shorter times would let other requests wait less, but yielding
 * takes up to 1 ms.
 */
export const SLICE_MS = 5;

export class Yielder {
  readonly #clock: Clock;
  #beganMs: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#beganMs = clock.monotonicMs();
  }

  /** Whether the task should yield now. Cheap enough to check every few microseconds. */
  get isDue(): boolean {
    return this.#clock.monotonicMs() - this.#beganMs >= SLICE_MS;
  }

  /** Yields to the event loop. Call it when `isDue`. */
  async yield(): Promise<void> {
    await this.#clock.sleep(0);
    this.#beganMs = this.#clock.monotonicMs();
  }
}

/**
 * Number of bytes copied between two checks. Copying them takes a few milliseconds if memory has to
 * be allocated.
 */
const COPIED_BYTES = 1_000_000;

/** Concatenates the pieces into new memory, yielding to the event loop. */
export async function joinYielding(
  pieces: readonly Uint8Array[],
  yielder: Yielder,
): Promise<Uint8Array<ArrayBuffer>> {
  const joined = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const piece of pieces) {
    for (let begin = 0; begin < piece.length; begin += COPIED_BYTES) {
      if (yielder.isDue) await yielder.yield();
      const part = piece.subarray(begin, begin + COPIED_BYTES);
      joined.set(part, at);
      at += part.length;
    }
  }
  return joined;
}
