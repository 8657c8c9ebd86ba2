/**
 * Condition of the store, which all nodes share. A full store refuses commits, and a slow store
 * delays each step.
 */
import { KeyValueError, type MemoryStorage } from "../../../src/kv/index.ts";

export class StoreCondition {
  readonly #fillings = new Set<symbol>();
  readonly #slownesses = new Set<{ readonly delayMsMax: number }>();

  /** Refuses every commit, like a full disk, until the returned function is called. */
  fill(): () => void {
    const filling = Symbol("filling");
    this.#fillings.add(filling);
    return () => void this.#fillings.delete(filling);
  }

  /**
   * Delays each step of the store by at most `delayMsMax`, until the returned function is called.
   */
  slowDown(delayMsMax: number): () => void {
    const slowness = { delayMsMax };
    this.#slownesses.add(slowness);
    return () => void this.#slownesses.delete(slowness);
  }

  get delayMsMax(): number {
    return Math.max(0, ...[...this.#slownesses].map(({ delayMsMax }) => delayMsMax));
  }

  /** Throws if the store refuses commits. This is called for each commit. */
  check(): void {
    if (this.#fillings.size > 0)
      throw new KeyValueError("KV_UNAVAILABLE", { reason: "the disk is full" });
  }
}

/** Lowers the byte limit of each page, so that readers of long ranges need many pages. */
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
