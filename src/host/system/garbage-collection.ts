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
 * Growth of a large heap that is allowed before a collection, in percent of its live objects; 0 for
 * V8's default. A heap is large if it has at least `GARBAGE_BYTES_MIN` of live objects.
 */
let garbagePercent = 0;

/**
 * Bounds the heap of a process that must stay small: the old generation is collected when it has
 * doubled.
 */
export function boundHeap(): void {
  garbagePercent = GARBAGE_PERCENT_MAX;
  setGrowth();
}

/**
 * Lets V8 keep some garbage before it collects the old generation. V8 counts external memory, such
 * as documents and attachments in transit, as growth of the heap. In a small heap this would
 * trigger a full collection every ten megabytes.
 */
export function leaveSomeGarbage(): void {
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
  const percent = growthPercent(getHeapStatistics().used_heap_size, garbagePercent);
  setFlagsFromString(`${HEAP_FLAG}=${percent}`);
}

/** Returns the allowed growth of the old generation, in percent of the live size. */
export function growthPercent(aliveBytes: number, percentOfMany: number): number {
  if (aliveBytes >= GARBAGE_BYTES_MIN) return percentOfMany;
  return Math.ceil((100 * GARBAGE_BYTES_MIN) / Math.max(aliveBytes, 1));
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
