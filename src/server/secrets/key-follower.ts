/**
 * Follows the key record. When another node has changed the sealing key, this node starts to use
 * the new key.
 */
import { type Runtime, waitAtMost } from "../../base/index.ts";
import type { KeyValueStore } from "../../kv/index.ts";
import { readKeyRecord, watchKeyRecord } from "./key-record.ts";
import type { KeyRing } from "./key-ring.ts";

/**
 * Interval between checks if no watch fires. A rotation waits longer than this before it removes a
 * key (`rotation.ts`).
 */
export const FOLLOW_INTERVAL_MS = 5_000;

export class KeyFollower {
  readonly name = "server.key-follower";
  readonly #runtime: Runtime;
  readonly #kv: KeyValueStore;
  readonly #ring: KeyRing;
  readonly #onKeyChanged: () => void;

  /** `onKeyChanged` is called when the sealing key has changed and this node has the new key. */
  constructor(runtime: Runtime, kv: KeyValueStore, ring: KeyRing, onKeyChanged: () => void) {
    this.#runtime = runtime;
    this.#kv = kv;
    this.#ring = ring;
    this.#onKeyChanged = onKeyChanged;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#runtime;
    while (!signal.aborted) {
      const watch = await this.#kv.transact(async (tx) => watchKeyRecord(tx));
      try {
        await this.follow();
        await waitAtMost(clock, FOLLOW_INTERVAL_MS, signal, (over) => watch.fired(over));
      } finally {
        watch.cancel();
      }
    }
  }

  /**
   * Reads the key record once. If its sealing key differs from the current one, uses the new one.
   */
  async follow(): Promise<void> {
    const record = await this.#kv.read(readKeyRecord);
    if (record === undefined || record.sealingId === this.#ring.sealingId) return;
    const { sealingId } = record;
    this.#ring.sealWith(sealingId);
    if (!this.#ring.has(sealingId)) {
      this.#runtime.trace.event("secrets.key-missing", { keyId: sealingId });
      return;
    }
    this.#runtime.trace.event("secrets.key-changed", { keyId: sealingId });
    this.#onKeyChanged();
  }
}
