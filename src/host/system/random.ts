/**
 * Randomness from the operating system. `fork` returns the same source, because separate streams
 * are useful only for reproducible numbers.
 */
import { randomFillSync, randomInt } from "node:crypto";
import type { Random } from "../../base/index.ts";

/**
 * Number of random bytes requested in advance, because a system call takes longer than generating
 * the bytes.
 */
const POOL_BYTES = 4_096;

export class SystemRandom implements Random {
  readonly #pool = new Uint8Array(POOL_BYTES);
  /** Bytes of the pool already used. */
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
    // Erases the bytes that have been handed out.
    this.#pool.fill(0, start, start + byteCount);
    return bytes;
  }

  fork(): Random {
    return this;
  }
}
