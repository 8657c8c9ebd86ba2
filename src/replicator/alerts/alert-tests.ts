/** Requests test alerts, and reports the state of deliveries, for operators on any node. */
import { type Runtime, randomHex, waitAtMost } from "../../base/index.ts";
import type { KeyValueStore, Subspace } from "../../kv/index.ts";
import { type AlertState, NO_CAUSE } from "./alert.ts";
import { AlertStore } from "./alert-store.ts";

/** Maximum wait for the delivery of a test alert. */
const TEST_MS_MAX = 20_000;
/** Maximum number of waiting alerts that are counted. */
const COUNTED_MAX = 1_000;

export interface AlertTestsParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly subspace: Subspace;
}

export class AlertTests {
  readonly #parts: AlertTestsParts;
  readonly #store: AlertStore;

  constructor(parts: AlertTestsParts) {
    this.#parts = parts;
    this.#store = new AlertStore(parts.subspace);
  }

  /**
   * Returns the state of deliveries and the number of waiting alerts, which is counted up to a
   * limit.
   */
  state(): Promise<AlertState & { readonly waitingCount: number }> {
    return this.#parts.kv.read(async (tx) => {
      const waiting = await this.#store.waiting(tx, COUNTED_MAX);
      return { ...(await this.#store.state(tx)), waitingCount: waiting.length };
    });
  }

  /**
   * Queues a test alert, and waits until the node with the lease has sent it. Returns the
   * receiver's error, if any, or "unsent" if no node has sent the alert in time.
   */
  async send(signal: AbortSignal): Promise<{ readonly error: string | undefined } | "unsent"> {
    const { runtime, kv } = this.#parts;
    const id = randomHex(runtime.random);
    const nowMs = runtime.clock.nowMs();
    const key = await kv.transact(async (tx) =>
      this.#store.appendTest(tx, {
        ...{ id, kind: "test", status: "firing", breachId: id, jobId: "" },
        ...{ timeMs: nowMs, sinceMs: nowMs, cause: NO_CAUSE },
      }),
    );
    let error: string | undefined;
    const isSent = await waitAtMost(runtime.clock, TEST_MS_MAX, signal, async (over) => {
      error = await this.#outcome(id, over);
    });
    if (isSent) return { error };
    await kv.transact(async (tx) => tx.clear(key));
    return "unsent";
  }

  async #outcome(id: string, signal: AbortSignal): Promise<string | undefined> {
    for (;;) {
      const { test, watch } = await this.#parts.kv.transact(async (tx) => ({
        test: (await this.#store.state(tx)).test,
        watch: this.#store.watchState(tx),
      }));
      try {
        if (test?.id === id) return test.error;
        await watch.fired(signal);
      } finally {
        watch.cancel();
      }
    }
  }
}
