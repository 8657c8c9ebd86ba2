/**
 * Lets a write in progress finish when its run stops: the server may already have the whole request
 * and would carry it out after the stop was confirmed.
 */
import { abortWith, type Clock } from "../base/index.ts";
import { type Fetch, type FetchRequest, observeBody } from "./fetch.ts";

export interface LingerOptions {
  readonly isWrite: (request: FetchRequest) => boolean;
  /** Whether an abort with this reason waits for writes in progress. */
  readonly waits: (reason: unknown) => boolean;
  /** Longest wait for the response. */
  readonly lingerMsMax: number;
}

export function withLinger(
  clock: Clock,
  fetch: Fetch,
  { isWrite, waits, lingerMsMax }: LingerOptions,
): Fetch {
  return async (request) => {
    const { signal } = request;
    if (!isWrite(request) || signal.aborted) return fetch(request);
    const ending = new AbortController();
    const answered = new AbortController();
    const end = (): void => ending.abort(signal.reason);
    const onAbort = (): void => {
      if (waits(signal.reason)) clock.sleep(lingerMsMax, answered.signal).then(end, () => {});
      else end();
    };
    signal.addEventListener("abort", onAbort, { once: true });
    try {
      const response = await fetch({ ...request, signal: ending.signal });
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
      answered.abort(OVER);
    }
  };
}

/** Created once: the error that `abort` creates by default costs more than everything else here. */
const OVER = new Error("The request is over");
