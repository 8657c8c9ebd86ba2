/**
 * Repeats requests that got no answer, or an answer that says "later" (408, 5xx), with doubling pauses. A 429 is obeyed
 * without counting as a failure, as long as the server asks (RFC 9110 `Retry-After`).
 */
import { errorCode, type Runtime } from "../base/index.ts";
import type { Fetch, FetchResponse } from "./fetch.ts";

/** The first pause; CouchDB's `couch_replicator_httpc`. */
const PAUSE_MS_FIRST = 250;
/** The longest pause; CouchDB's too. */
const PAUSE_MS_MAX = 300_000;
/** A server that sends 429 this often in a row is not going to answer this request. */
const TOO_MANY_REQUESTS_MAX = 50;

export interface RetryOptions {
  /** How often a request is repeated after its first failure. */
  readonly retryCountMax: number;
  /** No repetition starts later than this after the first failure, so that a failing job is not taken for a healthy one. */
  readonly failingMsMax: number;
}

export function withRetry(
  { clock, trace }: Pick<Runtime, "clock" | "trace">,
  fetch: Fetch,
  options: RetryOptions,
): Fetch {
  return async (request) => {
    let failureCount = 0;
    let waitedCount = 0;
    let firstFailureMs: number | undefined;
    for (;;) {
      const attempt = await tryOnce(fetch, request);
      if (attempt.kind === "answered") return attempt.response;
      const nowMs = clock.monotonicMs();
      firstFailureMs ??= nowMs;
      if (attempt.kind === "too-many-requests") {
        if (++waitedCount > TOO_MANY_REQUESTS_MAX) return attempt.response;
        attempt.response.discard();
        await clock.sleep(attempt.pauseMs, request.signal);
        continue;
      }
      failureCount++;
      const exhausted =
        failureCount > options.retryCountMax || nowMs - firstFailureMs > options.failingMsMax;
      if (exhausted) {
        if (attempt.kind === "failed") throw attempt.error;
        return attempt.response;
      }
      if (attempt.kind === "unavailable") attempt.response.discard();
      trace.event("http.retry", { method: request.method, failureCount });
      const pauseMs = Math.min(PAUSE_MS_FIRST * 2 ** (failureCount - 1), PAUSE_MS_MAX);
      await clock.sleep(pauseMs, request.signal);
    }
  };
}

type Attempt =
  | { readonly kind: "answered"; readonly response: FetchResponse }
  | { readonly kind: "unavailable"; readonly response: FetchResponse }
  | {
      readonly kind: "too-many-requests";
      readonly response: FetchResponse;
      readonly pauseMs: number;
    }
  | { readonly kind: "failed"; readonly error: unknown };

async function tryOnce(fetch: Fetch, request: Parameters<Fetch>[0]): Promise<Attempt> {
  try {
    const response = await fetch(request);
    if (response.status === 429) {
      const retryAfterSec = Number(response.headers.get("retry-after") ?? "1");
      const pauseMs = Number.isFinite(retryAfterSec) ? Math.max(0.1, retryAfterSec) * 1000 : 1000;
      return { kind: "too-many-requests", response, pauseMs: Math.min(pauseMs, PAUSE_MS_MAX) };
    }
    const later = response.status === 408 || response.status >= 500;
    return { kind: later ? "unavailable" : "answered", response };
  } catch (error) {
    request.signal.throwIfAborted();
    if (errorCode(error) === "HTTP_REQUEST_FAILED") return { kind: "failed", error };
    throw error;
  }
}
