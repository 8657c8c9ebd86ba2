/**
 * Frees what nobody can ask for any more, in every database at intervals, and in one when somebody asks for it: bodies
 * that another revision followed a while ago, then the bytes of attachments that no document refers to.
 */
import type { Compaction } from "../api/index.ts";
import { errorCode, type Runtime } from "../base/index.ts";
import type { AttachmentStore, Database, DatabaseRegistry } from "../databases/index.ts";
import type { KeyValueStore } from "../kv/index.ts";

const INTERVAL_MS = 10 * 60_000;

export interface ReclaimerParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly databases: DatabaseRegistry;
  readonly attachments: AttachmentStore;
  /** For how long bodies are kept. */
  readonly keepOldBodiesMs: () => number;
}

export class Reclaimer implements Compaction {
  readonly name = "server.reclaimer";
  readonly #parts: ReclaimerParts;
  /** Databases whose old bodies are cleared at once, whatever their age, and the one that is worked at. */
  readonly #asked = new Set<string>();
  #compacted: string | undefined;
  #wake: () => void = () => {};

  constructor(parts: ReclaimerParts) {
    this.#parts = parts;
  }

  /** Clears all old bodies of the database soon: what CouchDB's `_compact` does. */
  start(name: string): void {
    this.#asked.add(name);
    this.#wake();
  }

  isRunning(name: string): boolean {
    return this.#asked.has(name) || this.#compacted === name;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#parts.runtime;
    let nextMs = clock.nowMs() + INTERVAL_MS;
    while (!signal.aborted) {
      if (this.#asked.size === 0) await this.#untilAsked(nextMs - clock.nowMs(), signal);
      await this.#compactAsked(signal);
      if (signal.aborted || clock.nowMs() < nextMs) continue;
      await this.#reclaimAll(signal);
      nextMs = clock.nowMs() + INTERVAL_MS;
    }
  }

  async #untilAsked(waitMs: number, signal: AbortSignal): Promise<void> {
    const waiting = new AbortController();
    this.#wake = () => waiting.abort();
    const ended = AbortSignal.any([signal, waiting.signal]);
    await this.#parts.runtime.clock.sleep(Math.max(0, waitMs), ended).catch(() => {});
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

  async #reclaimAll(signal: AbortSignal): Promise<void> {
    const { runtime, kv, databases, keepOldBodiesMs } = this.#parts;
    const names = await kv.read((tx) => databases.names(tx, {}));
    for (const name of names) {
      await this.#compactAsked(signal);
      if (signal.aborted) return;
      await this.#reclaim(name, runtime.clock.nowMs() - keepOldBodiesMs(), signal);
    }
  }

  async #reclaim(name: string, beforeMs: number, signal: AbortSignal): Promise<void> {
    const { kv, databases, attachments } = this.#parts;
    try {
      const database = await kv.read((tx) => databases.open(tx, name));
      await this.#sweep(database, beforeMs, signal);
      await attachments.reclaim(database, {}, signal);
    } catch (error) {
      if (errorCode(error) !== "STORE_DATABASE_NOT_FOUND") throw error;
    }
  }

  async #sweep(database: Database, beforeMs: number, signal: AbortSignal): Promise<void> {
    const { runtime, kv } = this.#parts;
    let sweptCount = 0;
    for (let isLast = false; !isLast; ) {
      const page = await kv.transact((tx) => database.sweepOldBodies(tx, beforeMs), {
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
