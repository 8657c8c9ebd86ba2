/** How much garbage V8 lets pile up, for processes that are counted on to stay small. */
import { setFlagsFromString } from "node:v8";

/** Of the objects that are alive, in percent. V8 by itself goes up to four times what is alive. */
const GARBAGE_PERCENT_MAX = 100;

/** V8 ignores a flag that it does not know. */
export const HEAP_FLAG = "--heap-growing-percent";

/** From now on the old generation is collected when it has doubled. For the whole process, with all of its threads. */
export function boundHeap(): void {
  setFlagsFromString(`${HEAP_FLAG}=${GARBAGE_PERCENT_MAX}`);
}
