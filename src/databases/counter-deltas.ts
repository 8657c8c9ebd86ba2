/** What a batch adds to counters, gathered, so that each counter is touched once. */
import { hexEncode } from "../base/index.ts";
import type { Key, Transaction } from "../kv/index.ts";

export class CounterDeltas {
  readonly #deltas = new Map<string, { readonly key: Key; delta: number }>();

  add(key: Key, delta: number): void {
    if (delta === 0) return;
    const text = hexEncode(key);
    const known = this.#deltas.get(text);
    if (known === undefined) this.#deltas.set(text, { key, delta });
    else known.delta += delta;
  }

  apply(tx: Transaction): void {
    for (const { key, delta } of this.#deltas.values()) {
      if (delta !== 0) tx.add(key, BigInt(delta));
    }
    this.#deltas.clear();
  }
}
