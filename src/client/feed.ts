/** Server-sent events. After a lost connection, the feed resumes after the last event received. */
import { createParser, type EventSourceMessage } from "eventsource-parser";
import { pause } from "./pause.ts";
import { ApiError, errorOf, type QueryParameters, type Requests } from "./requests.ts";

const RECONNECT_MS = 1_000;

export type FeedItem =
  /** The connection is open; events after `place` follow. */
  | { readonly kind: "open"; readonly place: string }
  | { readonly kind: "message"; readonly message: EventSourceMessage }
  /** The connection is lost, and will be opened again. */
  | { readonly kind: "lost"; readonly error: unknown };

/**
 * Yields the messages of a feed until the signal aborts. Throws if the first connection fails, or
 * if the server refuses to continue the feed.
 */
export async function* followFeed(
  requests: Pick<Requests, "send">,
  path: string,
  {
    query = {},
    since,
    signal,
  }: {
    readonly query?: QueryParameters;
    readonly since?: string | undefined;
    readonly signal: AbortSignal;
  },
): AsyncGenerator<FeedItem, void, undefined> {
  let lastId = since;
  let hasBegun = false;
  const arrived: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (message) => arrived.push(message) });
  while (!signal.aborted) {
    try {
      for await (const text of readFeed(requests, path, { query, lastId, signal })) {
        parser.feed(text);
        for (const message of arrived.splice(0)) {
          lastId = message.id ?? lastId;
          // The server sends `position` as the first message of each connection.
          if (message.event !== "position") yield { kind: "message", message };
          else {
            hasBegun = true;
            yield { kind: "open", place: lastId ?? "" };
          }
        }
      }
      if (signal.aborted) return;
      if (!hasBegun) throw notAFeed("the server ended the feed before sending anything");
      yield { kind: "lost", error: new Error("the server ended the feed") };
    } catch (error) {
      if (signal.aborted) return;
      const isRefusal = error instanceof ApiError && error.status >= 400 && error.status < 500;
      if (!hasBegun || isRefusal) throw error;
      yield { kind: "lost", error };
    }
    parser.reset();
    await pause(RECONNECT_MS, signal);
  }
}

async function* readFeed(
  requests: Pick<Requests, "send">,
  path: string,
  {
    query,
    lastId,
    signal,
  }: {
    readonly query: QueryParameters;
    readonly lastId: string | undefined;
    readonly signal: AbortSignal;
  },
): AsyncGenerator<string, void, undefined> {
  const headers = {
    accept: "text/event-stream",
    ...(lastId === undefined ? {} : { "last-event-id": lastId }),
  };
  const response = await requests.send("GET", path, { query, signal, headers });
  if (response.status !== 200) throw errorOf(response, await response.text());
  const type = response.headers.get("content-type") ?? "no content type";
  const pieces = piecesOf(response.body);
  if (!/^text\/event-stream\b/i.test(type) || pieces === undefined) {
    await pieces?.[Symbol.asyncIterator]().return?.();
    throw notAFeed(`the server responded with ${type} instead of a feed`);
  }
  const decoder = new TextDecoder();
  for await (const piece of pieces) yield decoder.decode(piece, { stream: true });
}

function notAFeed(reason: string): ApiError {
  return new ApiError(0, "not_a_feed", reason);
}

/** Returns the chunks of a body. Browsers other than Firefox cannot iterate over streams. */
function piecesOf(body: unknown): AsyncIterable<Uint8Array> | undefined {
  if (typeof body !== "object" || body === null) return undefined;
  if (Symbol.asyncIterator in body) return body as AsyncIterable<Uint8Array>;
  return "getReader" in body ? readPieces(body as ReadableStream<Uint8Array>) : undefined;
}

async function* readPieces(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}
