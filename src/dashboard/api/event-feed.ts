/**
 * Client of `GET /_tandem/events`. After a lost connection it continues after the last event
 * received.
 */
import type { JobEvent } from "../../contract/index.ts";
import { addressOf, get, RequestError, withQuery } from "./request.ts";
import type { Query } from "./types.ts";

/** State of the connection. `refused`: the node permanently rejects the filters. */
export type FeedState = "connecting" | "live" | "lost" | "refused";

export interface FeedListener {
  event(event: JobEvent): void;
  /** Called when events were lost, so that data read before is out of date. */
  gap(): void;
  state(state: FeedState): void;
}

/** Pause before a retry after a refusal. The browser itself reconnects broken connections. */
const RETRY_MS = 3_000;

const OK = 200;
const BAD_REQUEST = 400;
const UNAUTHORIZED = 401;

export class EventFeed {
  readonly #query: Query;
  readonly #listener: FeedListener;
  #source: EventSource | undefined;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #lastId: string | undefined;
  #wasLost = false;
  /** Whether events may have been lost. */
  #hasMissed = false;

  /** `since`: the position after which the feed begins. Default: new events only. */
  constructor(query: Query, listener: FeedListener, since?: string) {
    this.#query = query;
    this.#listener = listener;
    this.#lastId = since;
  }

  /** Connects, continuing where `close` interrupted the feed. */
  open(): void {
    const since = this.#lastId === undefined ? {} : { since: this.#lastId };
    const source = new EventSource(
      addressOf(withQuery("_tandem/events", { ...this.#query, ...since })),
    );
    this.#source = source;
    this.#listener.state(this.#wasLost ? "lost" : "connecting");
    source.addEventListener("position", (message) => {
      this.#lastId = message.lastEventId;
      this.#listener.state("live");
      if (this.#hasMissed) this.#listener.gap();
      this.#wasLost = false;
      this.#hasMissed = false;
    });
    source.addEventListener("gap", (message) => {
      this.#lastId = message.lastEventId;
      this.#listener.gap();
    });
    source.addEventListener("job", (message) => {
      this.#lastId = message.lastEventId;
      const told = JSON.parse(message.data) as Omit<JobEvent, "place">;
      this.#listener.event({ ...told, place: message.lastEventId });
    });
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CLOSED) void this.#askWhy(source);
      else this.#lose();
    });
  }

  /** Disconnects. `open` resumes after the last known position, if any. */
  close(): void {
    clearTimeout(this.#retry);
    this.#source?.close();
    this.#source = undefined;
    this.#hasMissed ||= this.#lastId === undefined;
  }

  #lose(): void {
    this.#wasLost = true;
    // Data is read again after the reconnection, because requests in the meantime may fail.
    this.#hasMissed = true;
    this.#listener.state("lost");
  }

  /**
   * Finds the reason for a rejection, because the browser hides the response. A request for past
   * events with the same filters is rejected for the same reason.
   */
  async #askWhy(source: EventSource): Promise<void> {
    const status = await get(
      withQuery("_tandem/events/_past", { ...this.#query, limit: "1" }),
    ).then(
      () => OK,
      (error: unknown) => (error instanceof RequestError ? error.status : 0),
    );
    if (this.#source !== source) return;
    if (status === BAD_REQUEST) return this.#listener.state("refused");
    // After a 401, `request` has already reported that the session has expired.
    if (status !== UNAUTHORIZED) this.#lose();
    this.#retry = setTimeout(() => {
      this.close();
      this.open();
    }, RETRY_MS);
  }
}
