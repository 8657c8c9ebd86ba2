/**
 * Writes changed settings to the queue, which applies them to all nodes: `[replicator.shares]`, the
 * decay of usage, and the activity timeout.
 */
import { Notifier } from "../../base/index.ts";
import type { Replicator } from "../../replicator/index.ts";
import type { Configuration } from "./configuration.ts";
import { REPLICATOR_SECTION, SHARES_SECTION } from "./replicator-settings.ts";

export class QueueSettings {
  readonly name = "server.queue-settings";
  readonly #configuration: Configuration;
  readonly #replicator: Replicator;

  constructor(configuration: Configuration, replicator: Replicator) {
    this.#configuration = configuration;
    this.#replicator = replicator;
  }

  async run(signal: AbortSignal): Promise<void> {
    const changed = new Notifier();
    const unwatch = [REPLICATOR_SECTION, SHARES_SECTION].map((section) =>
      this.#configuration.watch(section, () => changed.notify()),
    );
    try {
      while (!signal.aborted) {
        // The first pass applies changes that were not applied before the node was restarted.
        await this.#replicator.prepare();
        await changed.notified(signal).catch(() => {});
      }
    } finally {
      for (const stop of unwatch) stop();
    }
  }
}
