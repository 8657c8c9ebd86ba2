/** Tunes V8's garbage collection for the whole process. V8 ignores unknown flags. */
import { constants, type PerformanceEntry, PerformanceObserver } from "node:perf_hooks";
import { getHeapStatistics, setFlagsFromString } from "node:v8";

/** Maximum garbage, in percent of live objects. V8's default can reach 400 %. */
const GARBAGE_PERCENT_MAX = 100;
/** Amount of garbage that is always tolerated. */
const GARBAGE_BYTES_MIN = 32 * 1024 * 1024;
/** Fill level (%) of the young generation that triggers collection between turns (V8: 80). */
const YOUNG_PERCENT = 30;

export const HEAP_FLAG = "--heap-growing-percent";
export const YOUNG_FLAG = "--minor-gc-task-trigger";
export const HELPERS_FLAG = "--no-parallel-scavenge";

/**
 * Bounds the garbage in the old generation. The old generation is collected when it has doubled,
 * but not before it has grown by `GARBAGE_BYTES_MIN`. V8 counts external memory, such as documents
 * and attachments in transit, as growth, so that a small heap would be collected completely every
 * ten megabytes. Applies to the heaps of all threads.
 */
export function boundGarbage(): void {
  setGrowth();
  const observer = new PerformanceObserver((list) => {
    if (list.getEntries().some(isMajor)) setGrowth();
  });
  observer.observe({ entryTypes: ["gc"] });
}

function isMajor(entry: PerformanceEntry): boolean {
  const { detail } = entry as { readonly detail?: { readonly kind?: number } };
  return detail?.kind === constants.NODE_PERFORMANCE_GC_MAJOR;
}

/** Sets the limit for the next collection, based on the live size after the last collection. */
function setGrowth(): void {
  setFlagsFromString(`${HEAP_FLAG}=${growthPercent(getHeapStatistics().used_heap_size)}`);
}

/** Returns the allowed growth of the old generation, in percent of the live size. */
export function growthPercent(aliveBytes: number): number {
  return Math.max(
    GARBAGE_PERCENT_MAX,
    Math.ceil((100 * GARBAGE_BYTES_MIN) / Math.max(aliveBytes, 1)),
  );
}

/**
 * Makes V8 collect the young generation mostly between event-loop turns, and without helper
 * threads. The cost of a collection depends on the number of live objects. Within a turn, a whole
 * batch of documents is live. Between turns, few objects are live, and waking helper threads would
 * cost more than the collection itself.
 */
export function collectBetweenTurns(): void {
  setFlagsFromString(`${YOUNG_FLAG}=${YOUNG_PERCENT}`);
  setFlagsFromString(HELPERS_FLAG);
}
