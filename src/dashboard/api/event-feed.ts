/** `GET /_tandem/events`, over lost connections: a feed goes on behind the last event that it saw. */
import type { JobEvent } from "../../contract/index.ts";
import { addressOf, get, RequestError, withQuery } from "./request.ts";
import type { Query } from "./types.ts";

/** `refused`: the node does not take the filters, now or later. */
export type FeedState = "connecting" | "live" | "lost" | "refused";

export interface FeedListener {
  event(event: JobEvent): void;
  /** Events are missing: what was read before is out of date. */
  gap(): void;
  state(state: FeedState): void;
}

/** How long after a refusal it is tried again; broken connections the browser mends by itself. */
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
  /** Whether something may have happened that it will not tell. */
  #hasMissed = false;

  /** `since`: the place behind which it begins; undefined: what happens from now on. */
  constructor(query: Query, listener: FeedListener, since?: string) {
    this.#query = query;
    this.#listener = listener;
    this.#lastId = since;
  }

  /** Begins now, or goes on where `close` interrupted it. */
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

  /** What happens from now on is told when it is opened again, if it has come so far as to know where that is. */
  close(): void {
    clearTimeout(this.#retry);
    this.#source?.close();
    this.#source = undefined;
    this.#hasMissed ||= this.#lastId === undefined;
  }

  #lose(): void {
    this.#wasLost = true;
    // Lists and totals that are asked for meanwhile may fail.
    this.#hasMissed = true;
    this.#listener.state("lost");
  }

  /** The browser keeps to itself what the node has answered: a list with the same filters is refused alike. */
  async #askWhy(source: EventSource): Promise<void> {
    const status = await get(withQuery("_tandem/jobs", { ...this.#query, limit: "0" })).then(
      () => OK,
      (error: unknown) => (error instanceof RequestError ? error.status : 0),
    );
    if (this.#source !== source) return;
    if (status === BAD_REQUEST) return this.#listener.state("refused");
    // Whose session has ended has heard of it.
    if (status !== UNAUTHORIZED) this.#lose();
    this.#retry = setTimeout(() => {
      this.close();
      this.open();
    }, RETRY_MS);
  }
}
