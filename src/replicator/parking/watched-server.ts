/** Requests of a watcher to a source's server, for changed databases and their update sequences. */

import type { JsonText } from "../../base/index.ts";
import type { DatabaseRegistry } from "../../databases/index.ts";
import type { KeyValueStore, ReadTransaction } from "../../kv/index.ts";
import type { SourceSequence } from "../endpoints/endpoint.ts";
import {
  deletedIn,
  type NamesPage,
  type ServerUpdates,
  UPDATES_MAX,
  type UpdateSequences,
} from "../endpoints/http/http-server.ts";

export interface WatchedServer {
  /**
   * Returns the end of the server's feed of updates; undefined if this account has no access to
   * one.
   */
  lastUpdate(signal: AbortSignal): Promise<SourceSequence | undefined>;
  /** Returns recently changed databases, latest first, up to a thousand. */
  latestChanged(signal: AbortSignal): Promise<readonly string[]>;
  /** Waits for updates after `since`, up to a time limit, and returns them. */
  updates(since: SourceSequence, signal: AbortSignal): Promise<ServerUpdates>;
  /** Returns the update sequences of up to a hundred databases. */
  sequences(names: readonly string[], signal: AbortSignal): Promise<UpdateSequences>;
  /** Returns the number of requests that a call of `sequences` makes. */
  requestCount(databaseCount: number): number;
}

/** A server whose databases can be listed. */
export interface ListedServer extends WatchedServer {
  /** Returns the next names after `after` ("" for the first). */
  names(after: string, limit: number, signal: AbortSignal): Promise<NamesPage>;
  /** Returns the security object of a database as text; undefined if not accessible. */
  security(name: string, signal: AbortSignal): Promise<JsonText | undefined>;
}

/** The node's own store, which is read directly, without requests. */
export class WatchedStore implements ListedServer {
  readonly #kv: KeyValueStore;
  readonly #databases: DatabaseRegistry;

  constructor(kv: KeyValueStore, databases: DatabaseRegistry) {
    this.#kv = kv;
    this.#databases = databases;
  }

  lastUpdate(): Promise<SourceSequence> {
    return this.#kv.read((tx) => this.#databases.updates.lastSequence(tx));
  }

  async latestChanged(): Promise<readonly string[]> {
    const { updates } = this.#databases;
    const { entries } = await this.#kv.read((tx) =>
      updates.page(tx, { descending: true, limit: UPDATES_MAX }),
    );
    return entries.map(({ name }) => name);
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
        const events = entries.map(({ name, kind }) => ({ name, isDeletion: kind === "deleted" }));
        const names = events.map(({ name }) => name);
        return { names, deleted: deletedIn(events), last: last.sequence };
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
    const sequenceOf = async (tx: ReadTransaction, name: string): Promise<SourceSequence> => {
      const database = await this.#databases.find(tx, name);
      return database === undefined ? "missing" : database.changes.lastSequence(tx);
    };
    // Read concurrently, because each read from a remote store is a round trip.
    const sequences = await this.#kv.read((tx) =>
      Promise.all(names.map((name) => sequenceOf(tx, name))),
    );
    return new Map(names.map((name, index) => [name, sequences[index] as SourceSequence]));
  }

  async names(after: string, limit: number): Promise<NamesPage> {
    const start = after === "" ? {} : { startName: after };
    const options = { ...start, limit: limit + 1 };
    const found = await this.#kv.read((tx) => this.#databases.names(tx, options));
    return { names: found.filter((name) => name > after), hasMore: found.length > limit };
  }

  security(name: string): Promise<JsonText | undefined> {
    return this.#kv.read(async (tx) => (await this.#databases.find(tx, name))?.security(tx));
  }

  requestCount(): number {
    return 0;
  }
}
