/**
 * Records the wall-clock time of store versions at intervals (`store-times.ts`). When an entry is
 * due, the first node that notices adds it.
 */
import type { Runtime } from "../base/index.ts";
import type { DatabaseRegistry } from "../databases/index.ts";
import type { KeyValueStore } from "../kv/index.ts";

const LOOK_MS = 60_000;

export interface TimeRecorderParts {
  readonly runtime: Pick<Runtime, "clock">;
  readonly kv: KeyValueStore;
  readonly databases: DatabaseRegistry;
}

export class TimeRecorder {
  readonly name = "server.time-recorder";
  readonly #parts: TimeRecorderParts;

  constructor(parts: TimeRecorderParts) {
    this.#parts = parts;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { runtime, kv, databases } = this.#parts;
    while (!signal.aborted) {
      await kv.transact((tx) => databases.times.record(tx), { signal, whenUnknown: "retry" });
      await runtime.clock.sleep(LOOK_MS, signal).catch(() => {});
    }
  }
}
