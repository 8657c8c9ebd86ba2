/**
 * Folds the changes of jobs into the rows of their lists once there are enough of them: a service of every node, since every node changes
 * jobs. Each looks when it has written some events itself; which of them then folds does not matter.
 */
import type { KeyValueStore } from "../../kv/index.ts";
import type { JobEventLog } from "./job-event-log.ts";
import type { JobIndex } from "./job-index.ts";

/** More at once touch fewer pages for each change, and are more work for each reader until then. */
const FOLDED_EVENTS_MIN = 1000;

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
      // First what those left who ran before.
      while (!signal.aborted && (await index.fold(kv, FOLDED_EVENTS_MIN)));
      await events.written.notified(signal).catch(() => {});
    }
  }
}
