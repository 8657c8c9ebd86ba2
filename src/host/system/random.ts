/** Chance from the machine. It is unpredictable, so forks need no labels. */
import { randomFillSync, randomInt } from "node:crypto";
import type { Random } from "../../base/index.ts";

/** Asked of the machine at once: a call costs more than the bytes. */
const POOL_BYTES = 4_096;

export class SystemRandom implements Random {
  readonly #pool = new Uint8Array(POOL_BYTES);
  /** Bytes of the pool that were given away. */
  #usedByteCount = POOL_BYTES;

  integer(limit: number): number {
    return randomInt(limit);
  }

  ratio(): number {
    return Math.random();
  }

  bytes(byteCount: number): Uint8Array {
    if (byteCount > POOL_BYTES) return randomFillSync(new Uint8Array(byteCount));
    if (this.#usedByteCount + byteCount > POOL_BYTES) {
      randomFillSync(this.#pool);
      this.#usedByteCount = 0;
    }
    const start = this.#usedByteCount;
    this.#usedByteCount += byteCount;
    const bytes = this.#pool.slice(start, start + byteCount);
    // The slice that was given away is not used again.
    this.#pool.fill(0, start, start + byteCount);
    return bytes;
  }

  fork(): Random {
    return this;
  }
}
