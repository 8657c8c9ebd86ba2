import type { Clock } from "../../base/index.ts";
import { nextTurn } from "./next-turn.ts";

/** Longer timers overflow in Node.js and fire immediately. */
const TIMER_MS_MAX = 2 ** 31 - 1;

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  sleep,
};

async function sleep(durationMs: number, signal?: AbortSignal): Promise<void> {
  if (durationMs <= 0) {
    // A timer would wait for a millisecond even if the event loop has nothing else to do.
    signal?.throwIfAborted();
    await nextTurn();
    signal?.throwIfAborted();
    return;
  }
  let leftMs = durationMs;
  while (leftMs > TIMER_MS_MAX) {
    await sleepOnce(TIMER_MS_MAX, signal);
    leftMs -= TIMER_MS_MAX;
  }
  await sleepOnce(leftMs, signal);
}

function sleepOnce(durationMs: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const onAbort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    }, durationMs);
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}
