/** Collects the amounts that a batch adds to counters, so that each counter is written once. */
import { hexEncode } from "../../base/index.ts";
import type { Key, Transaction } from "../../kv/index.ts";
import { type Counter, counterElement, type DatabaseKeys } from "../records/database-keys.ts";

export class CounterDeltas {
  readonly #keys: DatabaseKeys;
  readonly #named = new Map<Counter, number>();
  readonly #keyed = new Map<string, { readonly key: Key; delta: number }>();

  constructor(keys: DatabaseKeys) {
    this.#keys = keys;
  }

  add(counter: Counter, delta: number): void {
    if (delta !== 0) this.#named.set(counter, (this.#named.get(counter) ?? 0) + delta);
  }

  /** Adds to the counter stored under a key. */
  addAt(key: Key, delta: number): void {
    const text = hexEncode(key);
    const known = this.#keyed.get(text);
    if (known === undefined) this.#keyed.set(text, { key, delta });
    else known.delta += delta;
  }

  /** Adds the collected amounts to the counters. Must be called at most once. */
  apply(tx: Transaction): void {
    for (const [counter, delta] of this.#named) {
      if (delta !== 0) tx.add(this.#keys.counter.key(counterElement(counter)), BigInt(delta));
    }
    for (const { key, delta } of this.#keyed.values()) tx.add(key, BigInt(delta));
  }
}
