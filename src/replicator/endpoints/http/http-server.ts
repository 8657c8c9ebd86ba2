/** A server that speaks the CouchDB protocol, for requests about several of its databases. */

import { forEachConcurrent, type JsonText } from "../../../base/index.ts";
import type { ReplicationOptions } from "../../../contract/index.ts";
import { percentEncode } from "../../../protocol/index.ts";
import type { ResolvedAddress } from "../../request/replication.ts";
import type { SourceSequence } from "../endpoint.ts";
import { databasesAnswer, NAMES_ANSWER, SECURITY_ANSWER, SHORT_ANSWER } from "./answer-budget.ts";
import { asObject } from "./json-answer.ts";
import { HttpRequests, type HttpRequestsParts, query } from "./requests.ts";

/**
 * Pattern of the database names that are processed. It allows longer names than CouchDB, but only
 * characters for which string order equals byte order.
 */
const NAME = /^[\x21-\x7e]{1,1000}$/;
/**
 * Maximum length of a name in a feed, since a longer name would not fit into a key of the store.
 * The name can contain any character, since servers other than CouchDB might allow more characters.
 */
const NAME_LENGTH_MAX = 1000;
/** Time for which the server is allowed to delay a response while nothing changes. */
const FEED_TIMEOUT_MS = 20_000;

/** Maximum number of updates per request. */
export const UPDATES_MAX = 1000;
/** Maximum number of concurrent requests about single databases. */
const SINGLE_REQUESTS_MAX = 4;

/** Databases that have changed, and the sequence from which to continue. */
export interface ServerUpdates {
  readonly names: readonly string[];
  /** Names of databases known to be deleted. */
  readonly deleted: ReadonlySet<string>;
  readonly last: SourceSequence;
}

/** A page of database names in byte order, starting after a given name. */
export interface NamesPage {
  readonly names: readonly string[];
  /** Whether more names might follow. */
  readonly hasMore: boolean;
}

/** The members of a `_db_updates` row that identify deleted databases. */
export interface DatabaseEvent {
  readonly name: string;
  readonly isDeletion: boolean;
}

/** Returns the databases whose latest event is a deletion. */
export function deletedIn(events: readonly DatabaseEvent[]): ReadonlySet<string> {
  const latest = new Map(events.map(({ name, isDeletion }) => [name, isDeletion]));
  return new Set([...latest].flatMap(([name, isDeletion]) => (isDeletion ? [name] : [])));
}

/**
 * Update sequences by database. `missing`: the database does not exist, or the account is not
 * allowed to see it.
 */
export type UpdateSequences = ReadonlyMap<string, SourceSequence | "missing">;

export class HttpServer {
  readonly #requests: HttpRequests;
  /**
   * Whether the server supports requests about several databases (`_dbs_info`). Assumed to be true
   * until such a request fails.
   */
  #hasDatabasesInfo = true;

  /** `address` is the server's root, with its connection settings. */
  constructor(parts: HttpRequestsParts, address: ResolvedAddress, options: ReplicationOptions) {
    this.#requests = new HttpRequests(parts, address, options);
  }

  /**
   * Returns the end of the server's feed of updates; undefined if the server has no such feed, or
   * if the account is not allowed to follow it.
   */
  async lastUpdate(signal: AbortSignal): Promise<SourceSequence | undefined> {
    const path = `_db_updates${query({ since: "now", limit: "0" })}`;
    const answer = await this.#requests.ask("GET", path, {
      budget: NAMES_ANSWER,
      once: true,
      signal,
    });
    this.#throwIfAway(path, answer);
    const { status, json } = answer;
    const last = status === 200 ? asObject(json)?.last_seq : undefined;
    return last === null ? undefined : last;
  }

  /**
   * Returns the names of the most recently changed databases, at most a thousand, latest first;
   * empty if the feed does not report them.
   */
  async latestChanged(signal: AbortSignal): Promise<readonly string[]> {
    const path = `_db_updates${query({ descending: "true", limit: String(UPDATES_MAX) })}`;
    const { status, json } = await this.#requests.ask("GET", path, {
      budget: NAMES_ANSWER,
      once: true,
      signal,
    });
    const names = eventsOf(status === 200 ? json : undefined).map(({ name }) => name);
    return [...new Set(names)].slice(0, UPDATES_MAX);
  }

  /**
   * Returns the updates after `since`. If nothing has changed, waits for the next update, up to a
   * time limit.
   */
  async updates(since: SourceSequence, signal: AbortSignal): Promise<ServerUpdates> {
    const from = typeof since === "string" ? since : JSON.stringify(since);
    const parameters = { feed: "longpoll", since: from, timeout: String(FEED_TIMEOUT_MS) };
    const path = `_db_updates${query(parameters)}`;
    const answer = await this.#requests.ask("GET", path, { budget: NAMES_ANSWER, signal });
    const body = answer.status === 200 ? asObject(answer.json) : undefined;
    const { results, last_seq: last } = body ?? {};
    if (!Array.isArray(results) || last === undefined) {
      throw this.#requests.unexpected("db_updates_failed", "_db_updates", answer, answer.text);
    }
    const events = eventsOf(body);
    return { names: events.map(({ name }) => name), deleted: deletedIn(events), last };
  }

  /**
   * Returns the names that follow `after`; "" stands for the beginning. A server without support
   * for limits returns all names. Throws an EndpointError if the account is not allowed to list
   * names.
   */
  async names(after: string, limit: number, signal: AbortSignal): Promise<NamesPage> {
    const wanted = limit + 1;
    const start = after === "" ? {} : { startkey: JSON.stringify(after) };
    const path = `_all_dbs${query({ ...start, limit: String(wanted) })}`;
    const answer = await this.#requests.ask("GET", path, { budget: NAMES_ANSWER, signal });
    const { status, json } = answer;
    if (status === 401 || status === 403) {
      const error = status === 401 ? "unauthorized" : "forbidden";
      throw this.#requests.unexpected(error, "_all_dbs", answer, answer.text);
    }
    if (status !== 200 || !Array.isArray(json)) {
      throw this.#requests.unexpected("all_dbs_failed", "_all_dbs", answer, answer.text);
    }
    const texts = json.filter(
      (name) => typeof name === "string" && NAME.test(name) && name > after,
    );
    return { names: [...new Set<string>(texts)].sort(), hasMore: json.length === wanted };
  }

  /**
   * Returns the security object of a database as text; undefined if the database does not exist, or
   * if the account is not allowed to see it.
   */
  async security(name: string, signal: AbortSignal): Promise<JsonText | undefined> {
    const path = `${percentEncode(name)}/_security`;
    const answer = await this.#requests.ask("GET", path, { budget: SECURITY_ANSWER, signal });
    this.#throwIfAway(path, answer);
    const { status, json, text } = answer;
    return status === 200 && asObject(json) !== undefined ? text : undefined;
  }

  /** Returns the update sequences of up to a hundred databases. Sends `requestCount` requests. */
  async sequences(names: readonly string[], signal: AbortSignal): Promise<UpdateSequences> {
    if (this.#hasDatabasesInfo) {
      const found = await this.#databasesInfo(names, signal);
      if (found !== undefined) return found;
      this.#hasDatabasesInfo = false;
    }
    const sequences = new Map<string, SourceSequence | "missing">();
    await forEachConcurrent(names, SINGLE_REQUESTS_MAX, async (name) => {
      sequences.set(name, await this.sequence(name, signal));
    });
    return sequences;
  }

  requestCount(databaseCount: number): number {
    return this.#hasDatabasesInfo ? 1 : databaseCount;
  }

  /** Requests `_dbs_info`. Returns `undefined` if the server lacks it or rejects the account. */
  async #databasesInfo(
    names: readonly string[],
    signal: AbortSignal,
  ): Promise<UpdateSequences | undefined> {
    const body = JSON.stringify({ keys: names });
    const answer = await this.#requests.ask("POST", "_dbs_info", {
      body,
      budget: databasesAnswer(names.length),
      signal,
    });
    this.#throwIfAway("_dbs_info", answer);
    const { status, json } = answer;
    if (status !== 200 || !Array.isArray(json)) return undefined;
    const found = new Map<string, SourceSequence | "missing">();
    for (const row of json) {
      const { key, info } = asObject(row) ?? {};
      if (typeof key !== "string") continue;
      const sequence = asObject(info)?.update_seq;
      found.set(key, sequence === undefined ? "missing" : sequence);
    }
    return found;
  }

  /** Returns the update sequence of one database. */
  async sequence(name: string, signal: AbortSignal): Promise<SourceSequence | "missing"> {
    const path = percentEncode(name);
    const answer = await this.#requests.ask("GET", path, { budget: SHORT_ANSWER, signal });
    this.#throwIfAway(path, answer);
    const { status, json } = answer;
    const sequence = status === 200 ? asObject(json)?.update_seq : undefined;
    return sequence === undefined ? "missing" : sequence;
  }

  /**
   * Throws for a 5xx status other than 501, since a failing server's response says nothing about
   * its databases.
   */
  #throwIfAway(path: string, answer: { readonly status: number; readonly text: string }): void {
    const { status } = answer;
    if (status < 500 || status === 501) return;
    throw this.#requests.unexpected("server_failed", path, answer, answer.text);
  }
}

/** Returns the rows of a `_db_updates` response, in order. Invalid rows are dropped. */
function eventsOf(answer: unknown): readonly DatabaseEvent[] {
  const results: unknown = asObject(answer)?.results;
  if (!Array.isArray(results)) return [];
  return results.flatMap((row): DatabaseEvent[] => {
    const { db_name: name, type } = asObject(row) ?? {};
    if (typeof name !== "string" || name.length > NAME_LENGTH_MAX) return [];
    return [{ name, isDeletion: type === "deleted" }];
  });
}
