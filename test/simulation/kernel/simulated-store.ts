/** The condition of the store that all nodes share: while it is full it refuses commits, and while it is slow everything takes longer. */
import { KeyValueError, type MemoryStorage } from "../../../src/kv/index.ts";

export class StoreCondition {
  readonly #fillings = new Set<symbol>();
  readonly #slownesses = new Set<{ readonly delayMsMax: number }>();

  /** Refuses every commit, as a full disk does, until the function that is returned is called. */
  fill(): () => void {
    const filling = Symbol("filling");
    this.#fillings.add(filling);
    return () => void this.#fillings.delete(filling);
  }

  /** Lets each step take up to so long, until the function that is returned is called. */
  slowDown(delayMsMax: number): () => void {
    const slowness = { delayMsMax };
    this.#slownesses.add(slowness);
    return () => void this.#slownesses.delete(slowness);
  }

  get delayMsMax(): number {
    return Math.max(0, ...[...this.#slownesses].map(({ delayMsMax }) => delayMsMax));
  }

  /** Of a commit. */
  check(): void {
    if (this.#fillings.size > 0)
      throw new KeyValueError("KV_UNAVAILABLE", { reason: "the disk is full" });
  }
}

/** Ends pages that are bounded by bytes after so many: readers of long ranges then need many pages. */
export function withSmallPages(storage: MemoryStorage, pageBytesMax: number): void {
  const snapshot = storage.snapshot.bind(storage);
  storage.snapshot = () => {
    const whole = snapshot();
    return {
      version: whole.version,
      get: (key) => whole.get(key),
      page: (begin, end, options) => {
        const { byteCountMax } = options;
        if (byteCountMax === Number.POSITIVE_INFINITY) return whole.page(begin, end, options);
        const small = { ...options, byteCountMax: Math.min(byteCountMax, pageBytesMax) };
        return whole.page(begin, end, small);
      },
      release: () => whole.release(),
    };
  };
}
