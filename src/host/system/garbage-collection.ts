/**
 * Sets when V8 collects garbage. Its flags apply to the whole process, with all of its threads. V8 ignores unknown
 * flags.
 */
import { setFlagsFromString } from "node:v8";

/** Of the objects that are alive, in percent. V8 alone lets garbage grow to four times of them. */
const GARBAGE_PERCENT_MAX = 100;
/** Of the young generation that is full when a collection is due between two turns. V8's is 80. */
const YOUNG_PERCENT = 30;

export const HEAP_FLAG = "--heap-growing-percent";
export const YOUNG_FLAG = "--minor-gc-task-trigger";
export const HELPERS_FLAG = "--no-parallel-scavenge";

/** From now on the old generation is collected when it has doubled: for processes that are counted on to stay small. */
export function boundHeap(): void {
  setFlagsFromString(`${HEAP_FLAG}=${GARBAGE_PERCENT_MAX}`);
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
