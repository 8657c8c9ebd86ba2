/** Applies changes made to the local file by another process on the same machine. */
import type { Runtime } from "../../base/index.ts";
import type { Configuration } from "./configuration.ts";

const INTERVAL_MS = 1_000;

export class ConfigurationRefresher {
  readonly name = "server.configuration-refresher";
  readonly #runtime: Runtime;
  readonly #configuration: Configuration;

  constructor(runtime: Runtime, configuration: Configuration) {
    this.#runtime = runtime;
    this.#configuration = configuration;
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#runtime.clock.sleep(INTERVAL_MS, signal).catch(() => {});
      if (this.#configuration.reloadIfChanged()) {
        this.#runtime.trace.event("configuration.reloaded", {});
      }
    }
  }
}
