/** Ends requests that take too long as a whole, from the first byte sent to the last one read (`request_timeout`). */
import { abortWith, type Runtime } from "../base/index.ts";
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
    const limited = new AbortController();
    const unfollow = abortWith(request.signal, limited);
    const timer = new AbortController();
    void clock.sleep(timeMs, timer.signal).then(
      () => limited.abort(new RequestFailedError({ method, url, cause: "REQUEST_TIMEOUT" })),
      () => {},
    );
    const end = (): void => {
      timer.abort();
      unfollow();
    };
    try {
      const response = await fetch({ ...request, signal: limited.signal });
      return {
        ...response,
        body: readUntil(response.body, end),
        discard: () => {
          end();
          response.discard();
        },
      };
    } catch (error) {
      end();
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
