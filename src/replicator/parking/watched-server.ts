/** What a watcher asks of a source's server: which databases change, and where they are. */

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
  /** The end of its feed; undefined: it has none for us. */
  lastUpdate(signal: AbortSignal): Promise<SourceSequence | undefined>;
  /** The names of databases that have changed last, the latest first, as the feed tells them: a thousand at most. */
  latestChanged(signal: AbortSignal): Promise<readonly string[]>;
  /** Waits for updates behind `since`, for a while. */
  updates(since: SourceSequence, signal: AbortSignal): Promise<ServerUpdates>;
  /** Where databases are: of a hundred at most. */
  sequences(names: readonly string[], signal: AbortSignal): Promise<UpdateSequences>;
  /** Requests that a call of `sequences` takes. */
  requestCount(databaseCount: number): number;
}

/** A server whose databases are listed, too. */
export interface ListedServer extends WatchedServer {
  /** The next names behind `after`, which is "" for the first ones. */
  names(after: string, limit: number, signal: AbortSignal): Promise<NamesPage>;
  /** The security object of a database, as text; undefined: there is none to be seen. */
  security(name: string, signal: AbortSignal): Promise<JsonText | undefined>;
}

/** Our own store: its feed and its databases are read without a request. */
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
      return database === undefined ? "missing" : database.updateSequence(tx);
    };
    // All at once: where the store is another machine, each read is a way there and back.
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
