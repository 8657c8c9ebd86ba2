/**
 * Carries changes of settings into the queue, where they hold for all nodes: `[replicator.shares]`, how usage is forgotten, and the
 * activity timeout.
 */
import type { Replicator } from "../../replicator/index.ts";
import type { Configuration } from "./configuration.ts";
import { SHARES_SECTION } from "./replicator-settings.ts";

export class QueueSettings {
  readonly name = "server.queue-settings";
  readonly #configuration: Configuration;
  readonly #replicator: Replicator;

  constructor(configuration: Configuration, replicator: Replicator) {
    this.#configuration = configuration;
    this.#replicator = replicator;
  }

  async run(signal: AbortSignal): Promise<void> {
    let wake = (): void => {};
    // A change that could not be carried out before a restart of this is carried out now.
    let isChanged = true;
    const onChange = (): void => {
      isChanged = true;
      wake();
    };
    signal.addEventListener("abort", onChange, { once: true });
    const unwatch = ["replicator", SHARES_SECTION].map((section) =>
      this.#configuration.watch(section, onChange),
    );
    try {
      while (!signal.aborted) {
        if (!isChanged) {
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
          continue;
        }
        isChanged = false;
        await this.#replicator.prepare();
      }
    } finally {
      for (const stop of unwatch) stop();
    }
  }
}
