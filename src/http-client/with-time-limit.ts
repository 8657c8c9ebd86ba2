/** Ends requests that take too long as a whole, from the first byte sent to the last one read (`request_timeout`). */
import type { Runtime } from "../base/index.ts";
import { type Fetch, type FetchRequest, RequestFailedError } from "./fetch.ts";

/** `limitMs` says how long a request may take; infinite: as long as it likes. */
export function withTimeLimit(
  { clock }: Pick<Runtime, "clock">,
  fetch: Fetch,
  limitMs: (request: FetchRequest) => number,
): Fetch {
  return async (request) => {
    const timeMs = limitMs(request);
    if (timeMs === Number.POSITIVE_INFINITY) return fetch(request);
    const { method, url } = request;
    const late = new AbortController();
    const over = new AbortController();
    void clock.sleep(timeMs, over.signal).then(
      () => late.abort(new RequestFailedError({ method, url, cause: "REQUEST_TIMEOUT" })),
      () => {},
    );
    try {
      const signal = AbortSignal.any([request.signal, late.signal]);
      const response = await fetch({ ...request, signal });
      return {
        ...response,
        body: readUntil(response.body, () => over.abort()),
        discard: () => {
          over.abort();
          response.discard();
        },
      };
    } catch (error) {
      over.abort();
      throw error;
    }
  };
}

async function* readUntil(
  chunks: AsyncIterable<Uint8Array>,
  onEnd: () => void,
): AsyncIterable<Uint8Array> {
  try {
    yield* chunks;
  } finally {
    onEnd();
  }
}
