/** What a watcher asks of a source's server: which databases change, and where they are. */

import { errorCode, forEachConcurrent } from "../../base/index.ts";
import type { DatabaseRegistry } from "../../databases/index.ts";
import type { KeyValueStore } from "../../kv/index.ts";
import type { SourceSequence } from "../endpoints/endpoint.ts";
import type { HttpServer, ServerUpdates, UpdateSequences } from "../endpoints/http/http-server.ts";

/** Requests for single databases that are under way at once. */
const SINGLE_REQUESTS_MAX = 4;

export interface WatchedServer {
  /** The end of its feed; undefined: it has none for us. */
  lastUpdate(signal: AbortSignal): Promise<SourceSequence | undefined>;
  /** Waits for updates behind `since`, for a while. */
  updates(since: SourceSequence, signal: AbortSignal): Promise<ServerUpdates>;
  /** Where databases are: of a hundred at most. */
  sequences(names: readonly string[], signal: AbortSignal): Promise<UpdateSequences>;
  /** Requests that a call of `sequences` takes. */
  requestCount(databaseCount: number): number;
}

/** Updates of our own databases that are read at once. */
const UPDATES_MAX = 1000;

export class WatchedHttpServer implements WatchedServer {
  readonly #server: HttpServer;
  #hasDatabasesInfo = true;

  constructor(server: HttpServer) {
    this.#server = server;
  }

  lastUpdate(signal: AbortSignal): Promise<SourceSequence | undefined> {
    return this.#server.lastUpdate(signal);
  }

  updates(since: SourceSequence, signal: AbortSignal): Promise<ServerUpdates> {
    return this.#server.updates(since, signal);
  }

  async sequences(names: readonly string[], signal: AbortSignal): Promise<UpdateSequences> {
    if (this.#hasDatabasesInfo) {
      const found = await this.#server.sequences(names, signal);
      if (found !== undefined) return found;
      this.#hasDatabasesInfo = false;
    }
    const sequences = new Map<string, SourceSequence>();
    await forEachConcurrent(names, SINGLE_REQUESTS_MAX, async (name) => {
      sequences.set(name, await this.#server.sequence(name, signal));
    });
    return sequences;
  }

  requestCount(databaseCount: number): number {
    return this.#hasDatabasesInfo ? 1 : databaseCount;
  }
}

/** Our own store: its feed and its databases are read without a request. */
export class WatchedStore implements WatchedServer {
  readonly #kv: KeyValueStore;
  readonly #databases: DatabaseRegistry;

  constructor(kv: KeyValueStore, databases: DatabaseRegistry) {
    this.#kv = kv;
    this.#databases = databases;
  }

  lastUpdate(): Promise<SourceSequence> {
    return this.#kv.read((tx) => this.#databases.updates.lastSequence(tx));
  }

  async updates(since: SourceSequence, signal: AbortSignal): Promise<ServerUpdates> {
    const from = String(since);
    for (;;) {
      const { page, watch } = await this.#kv.transact(async (tx) => ({
        page: await this.#databases.updates.page(tx, { since: from, limit: UPDATES_MAX }),
        watch: this.#databases.updates.watch(tx),
      }));
      const { entries } = page;
      const last = entries.at(-1);
      if (last !== undefined) {
        watch.cancel();
        return { names: entries.map(({ name }) => name), last: last.sequence };
      }
      try {
        await watch.fired(signal);
      } finally {
        watch.cancel();
      }
      signal.throwIfAborted();
    }
  }

  async sequences(names: readonly string[]): Promise<UpdateSequences> {
    return this.#kv.read(async (tx) => {
      const found = new Map<string, SourceSequence>();
      for (const name of names) {
        const database = await this.#databases.open(tx, name).catch((error: unknown) => {
          if (errorCode(error) === "STORE_DATABASE_NOT_FOUND") return undefined;
          throw error;
        });
        const info = database && (await database.info(tx));
        found.set(name, info === undefined ? "missing" : info.updateSequence);
      }
      return found;
    });
  }

  requestCount(): number {
    return 0;
  }
}

/**
 * Whether a database is where it was. The nodes of a CouchDB cluster may write the same place in several ways: behind the sum of the
 * sequences of all shards stands a packed list of them (`g1AAAA…`), in any order. There the sum alone is compared.
 */
export function isSamePlace(left: SourceSequence, right: SourceSequence): boolean {
  const [one, other] = [shardSum(left), shardSum(right)];
  if (one !== undefined && other !== undefined) return one === other;
  return JSON.stringify(left) === JSON.stringify(right);
}

function shardSum(sequence: SourceSequence): string | undefined {
  return typeof sequence === "string" ? /^(\d+)-g/.exec(sequence)?.[1] : undefined;
}
