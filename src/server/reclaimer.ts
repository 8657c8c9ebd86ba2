/**
 * Frees data that can no longer be requested: bodies that were superseded some time ago, then the
 * bytes of attachments that no document refers to. Runs in every database at intervals, and in one
 * database on request. Also finds the conflicts in databases that an older program wrote. Each node
 * of a store processes some of the databases.
 */
import type { Compaction } from "../api/index.ts";
import { errorCode, type Runtime } from "../base/index.ts";
import type { AttachmentStore, Database, DatabaseRegistry } from "../databases/index.ts";
import type { KeyValueStore } from "../kv/index.ts";
import { forEachDatabase, ReclaimRounds } from "./reclaim-rounds.ts";

/** Interval at which a node checks for work. */
const LOOK_MS = 60_000;
/**
 * After each pass, the reclaimer sleeps for this multiple of the pass's duration, up to
 * `REST_MS_MAX`.
 */
const REST_FACTOR = 9;
const REST_MS_MAX = 5_000;

export interface ReclaimerParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly databases: DatabaseRegistry;
  readonly attachments: AttachmentStore;
  /** Time for which superseded bodies are kept. */
  readonly keepOldBodiesMs: () => number;
}

export class Reclaimer implements Compaction {
  readonly name = "server.reclaimer";
  readonly #parts: ReclaimerParts;
  readonly #rounds: ReclaimRounds;
  /** Databases for which a request asked to remove old bodies immediately. */
  readonly #asked = new Set<string>();
  #compacted: string | undefined;
  #wake: () => void = () => {};

  constructor(parts: ReclaimerParts) {
    this.#parts = parts;
    // A new store contains no old data, so its first round begins only after the interval.
    this.#rounds = new ReclaimRounds(parts);
  }

  /** Schedules the removal of all old bodies in the database, like CouchDB's `_compact`. */
  start(name: string): void {
    this.#asked.add(name);
    this.#wake();
  }

  isRunning(name: string): boolean {
    return this.#asked.has(name) || this.#compacted === name;
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      // Waits before the first pass, because a starting node has other work.
      await this.#untilAsked(LOOK_MS, signal);
      await this.#compactAsked(signal);
      if (!signal.aborted) await this.#reclaimShare(signal);
    }
  }

  async #untilAsked(waitMs: number, signal: AbortSignal): Promise<void> {
    if (this.#asked.size > 0) return;
    const waiting = new AbortController();
    this.#wake = () => waiting.abort();
    const ended = AbortSignal.any([signal, waiting.signal]);
    await this.#parts.runtime.clock.sleep(waitMs, ended).catch(() => {});
    this.#wake = () => {};
  }

  async #compactAsked(signal: AbortSignal): Promise<void> {
    for (const name of this.#asked) {
      if (signal.aborted) return;
      this.#asked.delete(name);
      this.#compacted = name;
      await this.#reclaim(name, this.#parts.runtime.clock.nowMs() + 1, signal);
      this.#compacted = undefined;
    }
  }

  /** Processes pages of databases until the nodes have claimed all pages of the round. */
  async #reclaimShare(signal: AbortSignal): Promise<void> {
    const { runtime, keepOldBodiesMs } = this.#parts;
    const { clock } = runtime;
    for (;;) {
      const beganMs = clock.monotonicMs();
      const names = await this.#rounds.take(signal);
      if (names.length === 0) return;
      const beforeMs = clock.nowMs() - keepOldBodiesMs();
      const found = await this.#withWork(names, beforeMs);
      const lookedMs = clock.monotonicMs() - beganMs;
      await forEachDatabase(found, signal, async (name) => {
        await this.#compactAsked(signal);
        await this.#reclaim(name, beforeMs, signal);
      });
      await this.#untilAsked(Math.min(lookedMs * REST_FACTOR, REST_MS_MAX), signal);
      await this.#compactAsked(signal);
      if (signal.aborted) return;
    }
  }

  /** Returns the databases that have data to free or conflicts to find. Most have neither. */
  #withWork(names: readonly string[], beforeMs: number): Promise<readonly string[]> {
    const { kv, databases, attachments } = this.#parts;
    return kv.read(async ({ snapshot: tx }) => {
      const haveSome = await Promise.all(
        names.map(async (name) => {
          const database = await databases.find(tx, name);
          if (database === undefined) return false;
          const [hasBodies, hasContents, hasToSearch] = await Promise.all([
            database.oldBodies.areThere(tx, beforeMs),
            attachments.hasReclaimable(tx, database),
            database.conflicts.hasToSearch(tx),
          ]);
          return hasBodies || hasContents || hasToSearch;
        }),
      );
      return names.filter((_, index) => haveSome[index]);
    });
  }

  async #reclaim(name: string, beforeMs: number, signal: AbortSignal): Promise<void> {
    const { kv, databases, attachments } = this.#parts;
    try {
      const database = await kv.read((tx) => databases.open(tx, name));
      await this.#sweep(database, beforeMs, signal);
      await this.#searchConflicts(name, signal);
      await attachments.reclaim(database, {}, signal);
    } catch (error) {
      if (errorCode(error) !== "STORE_DATABASE_NOT_FOUND") throw error;
    }
  }

  async #searchConflicts(name: string, signal: AbortSignal): Promise<void> {
    const { kv, databases } = this.#parts;
    const options = { signal, whenUnknown: "retry" } as const;
    for (let isLast = false; !isLast; ) {
      isLast = await kv.transact(async (tx) => {
        return (await databases.open(tx, name)).conflicts.search(tx);
      }, options);
    }
  }

  async #sweep(database: Database, beforeMs: number, signal: AbortSignal): Promise<void> {
    const { runtime, kv } = this.#parts;
    let sweptCount = 0;
    for (let isLast = false; !isLast; ) {
      const page = await kv.transact((tx) => database.oldBodies.sweep(tx, beforeMs), {
        signal,
        whenUnknown: "retry",
      });
      sweptCount += page.bodyCount;
      isLast = page.isLast;
    }
    if (sweptCount === 0) return;
    runtime.trace.event("databases.swept", { database: database.name, bodyCount: sweptCount });
  }
}
