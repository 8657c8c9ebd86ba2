/**
 * Folds job changes from the log into the rows of the job index, in batches. Every node runs this
 * service: it checks for work after the node has written events. Any node can fold the events of
 * all nodes.
 */
import type { KeyValueStore } from "../../kv/index.ts";
import type { JobEventLog } from "../job-log/job-event-log.ts";
import type { JobIndex } from "./job-index.ts";

/**
 * Minimum number of unfolded events for a fold, which fills its transaction. A larger batch touches
 * fewer pages per change, but readers have to apply more changes before the fold.
 */
const FOLDED_EVENTS_MIN = 250;

export interface IndexFolderParts {
  readonly kv: KeyValueStore;
  readonly index: JobIndex;
  readonly events: JobEventLog;
}

export class IndexFolder {
  readonly name = "replicator.index-folder";
  readonly #parts: IndexFolderParts;

  constructor(parts: IndexFolderParts) {
    this.#parts = parts;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { kv, index, events } = this.#parts;
    while (!signal.aborted) {
      // Fold the events that earlier processes have not folded.
      while (!signal.aborted && (await index.fold(kv, FOLDED_EVENTS_MIN)));
      await events.written.notified(signal).catch(() => {});
    }
  }
}
