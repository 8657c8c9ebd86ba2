/**
 * Allows a write in progress to finish when its run stops. The server might already have the whole
 * request and would execute it after the stop was confirmed. A request whose body is still being
 * streamed is aborted immediately, because the server cannot have all of it.
 */
import { abortWith, type Clock } from "../../base/index.ts";
import { type Fetch, type FetchRequest, observeBody, type RequestBody } from "../fetch.ts";

export interface LingerOptions {
  readonly isWrite: (request: FetchRequest) => boolean;
  /**
   * Maximum wait for the response after an abort with this reason; 0 for no wait. The timeout of
   * the request still applies.
   */
  readonly lingerMs: (reason: unknown) => number;
}

export function withLinger(
  clock: Clock,
  fetch: Fetch,
  { isWrite, lingerMs }: LingerOptions,
): Fetch {
  return async (request) => {
    const { signal } = request;
    if (!isWrite(request) || signal.aborted) return fetch(request);
    const ending = new AbortController();
    const answered = new AbortController();
    const sending = new Sending(request.body);
    const end = (): void => ending.abort(signal.reason);
    const onAbort = (): void => {
      const waitMs = sending.isOver ? lingerMs(signal.reason) : 0;
      if (waitMs === 0) end();
      else if (Number.isFinite(waitMs)) clock.sleep(waitMs, answered.signal).then(end, () => {});
    };
    signal.addEventListener("abort", onAbort, { once: true });
    try {
      const { body } = sending;
      const response = await fetch({ ...request, ...(body && { body }), signal: ending.signal });
      // The rest of the response is aborted when the run ends. The listener must be removed,
      // because the run's signal can live for days and serve many requests.
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
      answered.abort(OVER);
    }
  };
}

/** Created once: the error that `abort` creates by default costs more than everything else here. */
const OVER = new Error("Aborted because the request has ended");

/** A request body, and whether it has been sent completely. */
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
