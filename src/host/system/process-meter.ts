/** Measures this process. */
import { monitorEventLoopDelay } from "node:perf_hooks";

/** Each tick wakes the process, also one that has nothing to do. */
const RESOLUTION_MS = 100;
const NANOSECONDS_PER_MS = 1_000_000;

/** Begins to measure; each call tells the memory now, and the mean delay of the event loop since the call before. */
export function processMeter(): () => {
  readonly memoryBytes: number;
  readonly eventLoopDelayMs: number;
} {
  const delays = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delays.enable();
  return () => {
    // Its values are the times between two ticks of its timer.
    const tickMs = delays.count === 0 ? RESOLUTION_MS : delays.mean / NANOSECONDS_PER_MS;
    delays.reset();
    return {
      memoryBytes: process.memoryUsage.rss(),
      eventLoopDelayMs: Math.max(0, tickMs - RESOLUTION_MS),
    };
  };
}
