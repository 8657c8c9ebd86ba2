/** A transaction of a client that retries indefinitely. */
import { errorCode } from "../../../src/base/index.ts";
import type { Transaction } from "../../../src/kv/index.ts";
import type { SimulatedNode } from "./simulated-node.ts";

const PAUSE_MS = 500;

/**
 * Runs a transaction, retries it while the store refuses it, and applies its effect exactly once.
 */
export async function persistently<T>(
  { kv, runtime }: Pick<SimulatedNode, "kv" | "runtime">,
  body: (tx: Transaction) => Promise<T>,
): Promise<T> {
  for (;;) {
    try {
      return await kv.transact(body);
    } catch (error) {
      // If the error is KV_UNAVAILABLE, nothing was written.
      if (errorCode(error) !== "KV_UNAVAILABLE") throw error;
      await runtime.clock.sleep(PAUSE_MS);
    }
  }
}
