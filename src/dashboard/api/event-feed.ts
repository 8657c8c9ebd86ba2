/** The events of jobs, with the state of the connection. */
import type { JobEvent } from "../../contract/index.ts";
import { client, RequestError } from "./request.ts";
import type { Query } from "./types.ts";

/** State of the connection. `refused`: the node permanently rejects the filters. */
export type FeedState = "connecting" | "live" | "lost" | "refused";

export interface FeedListener {
  event(event: JobEvent): void;
  /** Called when events might have been lost. Data read earlier might then be out of date. */
  gap(): void;
  state(state: FeedState): void;
}

/** Pause before a retry after a refusal. The client itself reconnects broken connections. */
const RETRY_MS = 3_000;

const BAD_REQUEST = 400;
const UNAUTHORIZED = 401;

export class EventFeed {
  readonly #query: Query;
  readonly #listener: FeedListener;
  #closing = new AbortController();
  #retry: ReturnType<typeof setTimeout> | undefined;
  #lastId: string | undefined;
  #wasLost = false;
  /** Whether events might have been lost. */
  #hasMissed = false;

  /** `since`: the position after which the feed begins. Default: new events only. */
  constructor(query: Query, listener: FeedListener, since?: string) {
    this.#query = query;
    this.#listener = listener;
    this.#lastId = since;
  }

  /** Connects, continuing where `close` interrupted the feed. */
  open(): void {
    this.#closing = new AbortController();
    this.#listener.state(this.#wasLost ? "lost" : "connecting");
    void this.#follow(this.#closing.signal);
  }

  /** Disconnects. `open` resumes after the last known position, if any. */
  close(): void {
    clearTimeout(this.#retry);
    this.#closing.abort();
    this.#hasMissed ||= this.#lastId === undefined;
  }

  async #follow(signal: AbortSignal): Promise<void> {
    try {
      const options = { signal, since: this.#lastId };
      for await (const event of client.events(this.#query as object, options)) {
        if (signal.aborted) return;
        if (event.kind === "lost") {
          this.#lose();
          continue;
        }
        this.#lastId = event.place;
        if (event.kind === "job") this.#listener.event(event);
        else if (event.kind === "gap") this.#listener.gap();
        else this.#begin();
      }
    } catch (error) {
      if (signal.aborted) return;
      const status = error instanceof RequestError ? error.status : 0;
      if (status === BAD_REQUEST) return this.#listener.state("refused");
      // After a 401, the user is already being asked to log in.
      if (status !== UNAUTHORIZED) this.#lose();
      this.#retry = setTimeout(() => {
        this.close();
        this.open();
      }, RETRY_MS);
    }
  }

  #begin(): void {
    this.#listener.state("live");
    if (this.#hasMissed) this.#listener.gap();
    this.#wasLost = false;
    this.#hasMissed = false;
  }

  #lose(): void {
    this.#wasLost = true;
    // The listener reads its data again after the reconnection, because its requests may have
    // failed during the outage.
    this.#hasMissed = true;
    this.#listener.state("lost");
  }
}
