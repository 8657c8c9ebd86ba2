/** Frees the bytes of attachments that no document refers to any more, at intervals, in every database. */
import { errorCode, type Runtime } from "../base/index.ts";
import type { AttachmentStore, DatabaseRegistry } from "../databases/index.ts";
import type { KeyValueStore } from "../kv/index.ts";

const INTERVAL_MS = 10 * 60_000;

export class AttachmentReclaimer {
  readonly name = "server.attachment-reclaimer";
  readonly #runtime: Runtime;
  readonly #kv: KeyValueStore;
  readonly #databases: DatabaseRegistry;
  readonly #attachments: AttachmentStore;

  constructor(
    runtime: Runtime,
    kv: KeyValueStore,
    databases: DatabaseRegistry,
    attachments: AttachmentStore,
  ) {
    this.#runtime = runtime;
    this.#kv = kv;
    this.#databases = databases;
    this.#attachments = attachments;
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#runtime.clock.sleep(INTERVAL_MS, signal).catch(() => {});
      if (!signal.aborted) await this.#reclaimAll(signal);
    }
  }

  async #reclaimAll(signal: AbortSignal): Promise<void> {
    const names = await this.#kv.read((tx) => this.#databases.names(tx, {}));
    for (const name of names) {
      if (signal.aborted) return;
      try {
        const database = await this.#kv.read((tx) => this.#databases.open(tx, name));
        await this.#attachments.reclaim(database, {}, signal);
      } catch (error) {
        if (errorCode(error) !== "STORE_DATABASE_NOT_FOUND") throw error;
      }
    }
  }
}
