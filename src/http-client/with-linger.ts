/**
 * Lets a write in progress finish when its run stops: the server may already have the whole request
 * and would carry it out after the stop was confirmed. A body that is still being streamed ends
 * immediately, because the server cannot have all of it.
 */
import { abortWith } from "../base/index.ts";
import { type Fetch, type FetchRequest, observeBody, type RequestBody } from "./fetch.ts";

export interface LingerOptions {
  readonly isWrite: (request: FetchRequest) => boolean;
  /**
   * Whether an abort with this reason waits for writes in progress, until the response or the
   * request's own timeout.
   */
  readonly waits: (reason: unknown) => boolean;
}

export function withLinger(fetch: Fetch, { isWrite, waits }: LingerOptions): Fetch {
  return async (request) => {
    const { signal } = request;
    if (!isWrite(request) || signal.aborted) return fetch(request);
    const ending = new AbortController();
    const sending = new Sending(request.body);
    const onAbort = (): void => {
      if (!waits(signal.reason) || !sending.isOver) ending.abort(signal.reason);
    };
    signal.addEventListener("abort", onAbort, { once: true });
    try {
      const { body } = sending;
      const response = await fetch({ ...request, ...(body && { body }), signal: ending.signal });
      // The rest of the response ends with the run. The run's signal may live for days and serve
      // many requests.
      const unfollow = abortWith(signal, ending);
      return {
        ...observeBody(response, { onEnd: unfollow }),
        discard: () => {
          unfollow();
          response.discard();
        },
      };
    } finally {
      signal.removeEventListener("abort", onAbort);
    }
  };
}

/** A request body, and whether it has been handed over completely. */
class Sending {
  readonly body: RequestBody | undefined;
  isOver = true;

  constructor(body: RequestBody | undefined) {
    this.body = body;
    if (typeof body !== "object" || body instanceof Uint8Array) return;
    this.isOver = false;
    this.body = { length: body.length, stream: () => this.#observed(body.stream()) };
  }

  async *#observed(chunks: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
    yield* chunks;
    this.isOver = true;
  }
}
