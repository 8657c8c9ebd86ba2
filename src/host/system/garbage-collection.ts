/** Bounds the garbage in V8's heaps. */
import { constants, type PerformanceEntry, PerformanceObserver } from "node:perf_hooks";
import { getHeapStatistics, setFlagsFromString } from "node:v8";

/** Maximum garbage, in percent of live objects. V8's default can reach 400 %. */
const GARBAGE_PERCENT_MAX = 100;
/** Amount of garbage that is always tolerated. */
const GARBAGE_BYTES_MIN = 32 * 1024 * 1024;

/** V8 ignores an unknown flag. */
export const HEAP_FLAG = "--heap-growing-percent";

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
