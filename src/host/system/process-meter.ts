/** Measures this process. */
import { monitorEventLoopDelay } from "node:perf_hooks";

/** Interval of the timer ticks. A shorter interval would wake an idle process more often. */
const RESOLUTION_MS = 100;
const NANOSECONDS_PER_MS = 1_000_000;

/**
 * Starts measuring. The returned function returns the current memory usage, and the mean event-loop
 * delay since its previous call.
 */
export function processMeter(): () => {
  readonly memoryBytes: number;
  readonly eventLoopDelayMs: number;
} {
  const delays = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delays.enable();
  return () => {
    // The histogram records the intervals between timer ticks.
    const tickMs = delays.count === 0 ? RESOLUTION_MS : delays.mean / NANOSECONDS_PER_MS;
    delays.reset();
    return {
      memoryBytes: process.memoryUsage.rss(),
      eventLoopDelayMs: Math.max(0, tickMs - RESOLUTION_MS),
    };
  };
}
