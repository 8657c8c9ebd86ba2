/** A server that speaks the CouchDB protocol, asked about several of its databases at once. */
import type { HttpAddress } from "../../request/replication.ts";
import type { ReplicationOptions } from "../../request/replication-options.ts";
import { EndpointError, type SourceSequence } from "../endpoint.ts";
import { asObject } from "./json-answer.ts";
import { HttpRequests, type HttpRequestsParts, query } from "./requests.ts";

/** How long the server may hold an answer back while nothing changes. */
const FEED_TIMEOUT_MS = 20_000;

/** Databases that have changed, and where to go on from. */
export interface ServerUpdates {
  readonly names: readonly string[];
  readonly last: SourceSequence;
}

/** `missing`: there is no such database, or this account may not see it. */
export type UpdateSequences = ReadonlyMap<string, SourceSequence | "missing">;

export class HttpServer {
  readonly #requests: HttpRequests;

  /** `address`: the root of the server, and how it is asked. */
  constructor(parts: HttpRequestsParts, address: HttpAddress, options: ReplicationOptions) {
    this.#requests = new HttpRequests(parts, address, options);
  }

  /** The end of the server's feed of updates; undefined: this account may not follow it, or there is none. */
  async lastUpdate(signal: AbortSignal): Promise<SourceSequence | undefined> {
    const path = `_db_updates${query({ since: "now", limit: "0" })}`;
    const { status, json } = await this.#requests.ask("GET", path, { once: true, signal });
    this.#throwIfAway(status, path);
    const last = status === 200 ? asObject(json)?.last_seq : undefined;
    return last === null ? undefined : last;
  }

  /** Updates behind `since`; waits for one for a while. */
  async updates(since: SourceSequence, signal: AbortSignal): Promise<ServerUpdates> {
    const from = typeof since === "string" ? since : JSON.stringify(since);
    const parameters = { feed: "longpoll", since: from, timeout: String(FEED_TIMEOUT_MS) };
    const path = `_db_updates${query(parameters)}`;
    const answer = await this.#requests.ask("GET", path, { signal });
    const body = answer.status === 200 ? asObject(answer.json) : undefined;
    const { results, last_seq: last } = body ?? {};
    if (!Array.isArray(results) || last === undefined) {
      throw this.#requests.unexpected("db_updates_failed", "_db_updates", answer, answer.text);
    }
    const names = results.map((row) => asObject(row)?.db_name);
    return { names: names.filter((name) => typeof name === "string"), last };
  }

  /** Of several databases with one request; undefined: the server cannot, or this account may not. */
  async sequences(
    names: readonly string[],
    signal: AbortSignal,
  ): Promise<UpdateSequences | undefined> {
    const body = JSON.stringify({ keys: names });
    const { status, json } = await this.#requests.ask("POST", "_dbs_info", { body, signal });
    this.#throwIfAway(status, "_dbs_info");
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

  /** Of one database. */
  async sequence(name: string, signal: AbortSignal): Promise<SourceSequence | "missing"> {
    const path = encodeURIComponent(name);
    const { status, json } = await this.#requests.ask("GET", path, { signal });
    this.#throwIfAway(status, path);
    const sequence = status === 200 ? asObject(json)?.update_seq : undefined;
    return sequence === undefined ? "missing" : sequence;
  }

  /** What a server says that has trouble of its own tells nothing of its databases. */
  #throwIfAway(status: number, path: string): void {
    if (status < 500 || status === 501) return;
    const { shownUrl } = this.#requests;
    throw new EndpointError("server_failed", `${status} from ${shownUrl}${path}`);
  }
}
