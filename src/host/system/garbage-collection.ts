/**
 * Sets when V8 collects garbage. Its flags apply to the whole process, with all of its threads. V8 ignores unknown
 * flags.
 */
import { constants, type PerformanceEntry, PerformanceObserver } from "node:perf_hooks";
import { getHeapStatistics, setFlagsFromString } from "node:v8";

/** Of the objects that are alive, in percent. V8 alone lets garbage grow to four times of them. */
const GARBAGE_PERCENT_MAX = 100;
/** So much garbage is left alone, however few objects are alive. */
const GARBAGE_BYTES_MIN = 32 * 1024 * 1024;
/** Of the young generation that is full when a collection is due between two turns. V8's is 80. */
const YOUNG_PERCENT = 30;

export const HEAP_FLAG = "--heap-growing-percent";
export const YOUNG_FLAG = "--minor-gc-task-trigger";
export const HELPERS_FLAG = "--no-parallel-scavenge";

/** For a process with much alive, in percent of it; 0: V8 decides. */
let garbagePercent = 0;

/** From now on the old generation is collected when it has doubled: for processes that are counted on to stay small. */
export function boundHeap(): void {
  garbagePercent = GARBAGE_PERCENT_MAX;
  setGrowth();
}

/**
 * From now on little garbage is no reason to collect the old generation. V8 counts the bytes of documents and attachments on their way,
 * which lie outside of its heap, with what the old generation has grown by. Where little is alive, it would go through all of that after
 * every ten megabytes.
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

/** For the next collection, by what is alive behind the last one. */
function setGrowth(): void {
  const percent = growthPercent(getHeapStatistics().used_heap_size, garbagePercent);
  setFlagsFromString(`${HEAP_FLAG}=${percent}`);
}

/** By how much the old generation may grow, in percent of what is alive. */
export function growthPercent(aliveBytes: number, percentOfMany: number): number {
  if (aliveBytes >= GARBAGE_BYTES_MIN) return percentOfMany;
  return Math.ceil((100 * GARBAGE_BYTES_MIN) / Math.max(aliveBytes, 1));
}

/**
 * From now on the young generation is mostly collected between two turns of the event loop, by the thread itself. A collection costs
 * what it finds alive: in the middle of a batch of documents that is the batch with all that is made of it, after its turn next to
 * nothing, which is copied in less time than helpers take to come.
 */
export function collectBetweenTurns(): void {
  setFlagsFromString(`${YOUNG_FLAG}=${YOUNG_PERCENT}`);
  setFlagsFromString(HELPERS_FLAG);
}
