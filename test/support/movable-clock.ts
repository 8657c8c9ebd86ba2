/**
 * The system clock with an adjustable offset, with which a test can make time pass without waiting.
 */
import type { Clock } from "../../src/base/index.ts";

export function movableClock(clock: Clock): {
  readonly clock: Clock;
  move(durationMs: number): void;
} {
  let aheadMs = 0;
  return {
    clock: {
      nowMs: () => clock.nowMs(),
      monotonicMs: () => clock.monotonicMs() + aheadMs,
      sleep: (durationMs, signal) => clock.sleep(durationMs, signal),
    },
    move(durationMs) {
      aheadMs += durationMs;
    },
  };
}
