/**
 * Aborts requests that take too long in total, from the first byte sent to the last one read
 * (`request_timeout`).
 */
import { abortWith, type Runtime } from "../../base/index.ts";
import { type Fetch, type FetchRequest, observeBody, RequestFailedError } from "../fetch.ts";

/** Limits the duration of each request to `limitMs`, which can be infinite. */
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
    const over = new AbortController();
    const unfollow = abortWith(request.signal, limited);
    const onEnd = (): void => {
      unfollow();
      over.abort(OVER);
    };
    void clock.sleep(timeMs, over.signal).then(
      () => limited.abort(new RequestFailedError({ method, url, cause: "REQUEST_TIMEOUT" })),
      () => {},
    );
    try {
      const response = await fetch({ ...request, signal: limited.signal });
      const observed = observeBody(response, { onEnd });
      return {
        ...observed,
        discard: () => {
          onEnd();
          response.discard();
        },
      };
    } catch (error) {
      onEnd();
      throw error;
    }
  };
}

/**
 * Reason for stopping the timer of a finished request. Created once, because the error that `abort`
 * creates by default costs more than the rest of this function.
 */
const OVER = new Error("Timer stopped because the request has ended");
