/**
 * Lets a write that is under way come to its end when its run stops: the server may have the whole request already, and
 * would carry it out after the stop was answered.
 */
import { abortWith, type Clock } from "../base/index.ts";
import { type Fetch, type FetchRequest, observeBody } from "./fetch.ts";

export interface LingerOptions {
  readonly isWrite: (request: FetchRequest) => boolean;
  /** Whether the reason of an abort is a stop that waits for writes. */
  readonly waits: (reason: unknown) => boolean;
  /** Longest wait for the answer. */
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
      // The rest of the answer ends with the run. Its signal may live for days and see many requests.
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

/** Made once: the error that `abort` makes by itself takes longer than all else that it does. */
const OVER = new Error("The request is over");
