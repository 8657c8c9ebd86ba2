/**
 * Purges documents some time after their deletion, in databases with a time to live (CouchDB's
 * `couch_auto_purge_plugin`). Each node of a store processes some of the databases. The progress in
 * a database is stored with each purge, so any node can continue.
 */
import type { Runtime } from "../base/index.ts";
import { errorCode } from "../base/index.ts";
import {
  type Database,
  type DatabaseRegistry,
  type Purge,
  type PurgedTombstones,
  PurgeSize,
  type WriteContext,
} from "../databases/index.ts";
import type { KeyValueStore } from "../kv/index.ts";
import { parseTtl } from "../protocol/index.ts";
import { AUTO_PURGE_ROUND_KEY } from "./layout.ts";
import { forEachDatabase, ReclaimRounds } from "./reclaim-rounds.ts";
import type { AutoPurgeSettings } from "./settings/auto-purge-settings.ts";

/** Interval at which a node checks for work. */
const LOOK_MS = 60_000;
/** After each step, the purger sleeps for this multiple of the step's duration. */
const REST_FACTOR = 9;
const REST_MS_MAX = 5_000;
const SERVER: WriteContext = { userName: null, roles: ["_admin"], isAdmin: true };

export interface AutoPurgerParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly databases: DatabaseRegistry;
  readonly settings: AutoPurgeSettings;
}

export class AutoPurger {
  readonly name = "server.auto-purger";
  readonly #parts: AutoPurgerParts;
  readonly #rounds: ReclaimRounds;
  /** Sequences up to which dry runs have counted deleted documents, by database uuid. */
  readonly #counted = new Map<string, string>();
  /** Aborts the current wait, or the next one, when purging is switched on or off. */
  #switched = new AbortController();

  constructor(parts: AutoPurgerParts) {
    this.#parts = parts;
    this.#rounds = new ReclaimRounds(parts, { key: AUTO_PURGE_ROUND_KEY, isDueAtFirst: true });
    parts.settings.onSwitched(() => this.#switched.abort());
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      // Waits before the first pass, because a starting node has other work.
      await this.#wait(signal);
      while (!signal.aborted && this.#parts.settings.isEnabled) {
        const names = await this.#rounds.take(signal);
        if (names.length === 0) break;
        await forEachDatabase(names, signal, (name) => this.#work(name, signal));
      }
    }
  }

  async #wait(signal: AbortSignal): Promise<void> {
    const ended = AbortSignal.any([signal, this.#switched.signal]);
    await this.#parts.runtime.clock.sleep(LOOK_MS, ended).catch(() => {});
    this.#switched = new AbortController();
  }

  async #work(name: string, signal: AbortSignal): Promise<void> {
    const { runtime, settings } = this.#parts;
    if (settings.skips(name)) return;
    const { isDryRun } = settings;
    let documentCount = 0;
    try {
      for await (const count of isDryRun ? this.#count(name, signal) : this.#purge(name, signal)) {
        documentCount += count;
      }
    } catch (error) {
      if (errorCode(error) !== "STORE_DATABASE_NOT_FOUND") throw error;
    } finally {
      const fields = { database: name, documentCount, isDryRun };
      if (documentCount > 0) runtime.trace.event("databases.tombstones-purged", fields);
    }
  }

  /** Yields the number of documents purged in each step. */
  async *#purge(name: string, signal: AbortSignal): AsyncGenerator<number> {
    const { kv, databases } = this.#parts;
    const size = new PurgeSize();
    let step: PurgedTombstones | undefined = { documentCount: 0, rest: [], isLast: false };
    while (!step.isLast && this.#continues(signal)) {
      const rest: readonly Purge[] = step.rest;
      const beganMs = this.#parts.runtime.clock.monotonicMs();
      try {
        step = await kv.transact(
          async (tx): Promise<PurgedTombstones> => {
            const database = await databases.open(tx, name);
            const beforeMs = await this.#beforeMs(tx, database);
            if (beforeMs === undefined) return { documentCount: 0, rest: [], isLast: true };
            return database.tombstones.purge(tx, { beforeMs, rest }, SERVER, size);
          },
          { signal, whenUnknown: "retry" },
        );
      } catch (error) {
        if (!size.halveAfter(error)) throw error;
        continue;
      }
      yield step.documentCount;
      if (!step.isLast) await this.#rest(beganMs, signal);
    }
  }

  /**
   * Like `#purge`, but only counts the documents. Continues after the documents that earlier calls
   * on this node have counted.
   */
  async *#count(name: string, signal: AbortSignal): AsyncGenerator<number> {
    const { kv, databases } = this.#parts;
    for (let isLast = false; !isLast && this.#continues(signal); ) {
      const beganMs = this.#parts.runtime.clock.monotonicMs();
      const page = await kv.read(async (tx) => {
        const database = await databases.open(tx, name);
        const beforeMs = await this.#beforeMs(tx, database);
        if (beforeMs === undefined) return undefined;
        const after = this.#counted.get(database.uuid);
        return { database, ...(await database.tombstones.count(tx, { beforeMs, after })) };
      });
      if (page === undefined) return;
      this.#counted.set(page.database.uuid, page.through);
      yield page.count;
      isLast = page.isLast;
      if (!isLast) await this.#rest(beganMs, signal);
    }
  }

  #continues(signal: AbortSignal): boolean {
    return !signal.aborted && this.#parts.settings.isEnabled;
  }

  /**
   * Returns the cutoff: documents deleted before this time are purged. Returns `undefined` if no
   * documents are purged.
   */
  async #beforeMs(
    tx: Parameters<Database["tombstones"]["ttl"]>[0],
    { tombstones }: Database,
  ): Promise<number | undefined> {
    const { runtime, settings } = this.#parts;
    const own = await tombstones.ttl(tx);
    const ttlMs = own === undefined ? settings.ttlMs : parseTtl(own);
    if (ttlMs === undefined || ttlMs === Number.POSITIVE_INFINITY) return undefined;
    return runtime.clock.nowMs() - ttlMs;
  }

  async #rest(beganMs: number, signal: AbortSignal): Promise<void> {
    const { clock } = this.#parts.runtime;
    const restMs = Math.min((clock.monotonicMs() - beganMs) * REST_FACTOR, REST_MS_MAX);
    await clock.sleep(restMs, signal).catch(() => {});
  }
}
