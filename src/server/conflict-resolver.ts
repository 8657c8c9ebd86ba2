/**
 * Resolves conflicts in databases with a conflict policy. Reads only the list of these databases
 * and their lists of conflicts, so other databases and documents cost nothing. Only one node at a
 * time works in a database. If that node dies, another node continues.
 */
import { errorCode, type Runtime } from "../base/index.ts";
import type { Database, DatabaseRegistry } from "../databases/index.ts";
import { type ConflictParts, ConflictResolution } from "../documents/index.ts";
import type { KeyValueStore } from "../kv/index.ts";
import { forEachDatabase } from "./reclaim-rounds.ts";

/** Default interval at which a node checks for work. */
const LOOK_MS = 5_000;
const POLICIES_PER_PAGE = 100;
/**
 * Maximum number of conflicts per page. The number is small, because a page must take less time
 * than `TURN_MS` in `resolutions.ts`, even if a function times out for each document.
 */
const CONFLICTS_PER_PAGE = 10;
/** Maximum number of steps for one document. Each step removes some of the document's leaves. */
const STEPS_MAX = 100;
/** Longest pause after a page. The pause is as long as the page took, but not longer than this. */
const REST_MS_MAX = 5_000;

export class ConflictResolver {
  readonly name = "server.conflict-resolver";
  readonly #runtime: Runtime;
  readonly #kv: KeyValueStore;
  readonly #databases: DatabaseRegistry;
  readonly #resolution: ConflictResolution;
  readonly #lookMs: number;

  constructor(parts: ConflictParts, lookMs = LOOK_MS) {
    this.#runtime = parts.runtime;
    this.#kv = parts.kv;
    this.#databases = parts.databases;
    this.#resolution = new ConflictResolution(parts);
    this.#lookMs = lookMs;
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#runtime.clock.sleep(this.#lookMs, signal).catch(() => {});
      for (let after: string | undefined, isLast = false; !isLast && !signal.aborted; ) {
        const page = await this.#kv.read((tx) => {
          return this.#databases.conflictPolicies(tx, { after, limit: POLICIES_PER_PAGE });
        });
        await forEachDatabase(page.entries, signal, (name) => this.#work(name, signal));
        after = page.entries.at(-1);
        isLast = page.stoppedBy === "exhausted" || after === undefined;
      }
    }
  }

  async #work(name: string, signal: AbortSignal): Promise<void> {
    try {
      await this.#pass(name, signal);
    } catch (error) {
      if (signal.aborted || errorCode(error) === "STORE_DATABASE_NOT_FOUND") return;
      throw error;
    }
  }

  async #pass(name: string, signal: AbortSignal): Promise<void> {
    let afterId = await this.#inDatabase(name, async (tx, { conflicts, resolutions }) => {
      const { count } = await conflicts.count(tx);
      return count === 0 ? undefined : resolutions.takeTurn(tx);
    });
    let leftSome = false;
    while (afterId !== undefined && !signal.aborted) {
      const beganMs = this.#runtime.clock.monotonicMs();
      const page = await this.#conflicts(name, afterId);
      for (const { id } of page.entries) {
        if (signal.aborted) return;
        if (await this.#leaves(name, id, signal)) leftSome = true;
      }
      const isComplete = page.stoppedBy === "exhausted";
      const turn = { isComplete, afterId: page.entries.at(-1)?.id ?? afterId };
      await this.#inDatabase(name, async (tx, { resolutions }) => {
        // The policy might have been removed in the meantime. A row written now would then never be
        // removed.
        if ((await resolutions.policy(tx)) === undefined) return;
        resolutions.endTurn(tx, turn, { leftSome });
      });
      if (isComplete) return;
      afterId = turn.afterId;
      const tookMs = this.#runtime.clock.monotonicMs() - beganMs;
      await this.#runtime.clock.sleep(Math.min(tookMs, REST_MS_MAX), signal).catch(() => {});
    }
  }

  /** Returns the next conflicts, or none if the database has no policy. */
  #conflicts(name: string, afterId: string) {
    return this.#kv.read(async (tx) => {
      const { conflicts, resolutions } = await this.#databases.open(tx, name);
      if ((await resolutions.policy(tx)) === undefined) {
        return { entries: [], stoppedBy: "exhausted" } as const;
      }
      const after = afterId === "" ? {} : { afterId };
      return conflicts.page(tx, { ...after, limit: CONFLICTS_PER_PAGE });
    });
  }

  /**
   * Resolves the conflict of a document. Returns true if the policy leaves the conflict unresolved.
   */
  async #leaves(name: string, id: string, signal: AbortSignal): Promise<boolean> {
    for (let step = 0; step < STEPS_MAX && !signal.aborted; step++) {
      const outcome = await this.#resolution.resolve(name, id, signal);
      if (outcome !== "resolved") return outcome === "left";
    }
    return false;
  }

  #inDatabase<T>(
    name: string,
    body: (
      tx: Parameters<Parameters<KeyValueStore["transact"]>[0]>[0],
      database: Database,
    ) => Promise<T>,
  ): Promise<T> {
    return this.#kv.transact(async (tx) => body(tx, await this.#databases.open(tx, name)), {
      whenUnknown: "retry",
    });
  }
}
