/**
 * Repeats requests without a response, or with a response that allows a retry (408, 5xx), with
 * doubling pauses. A 429 causes a wait and does not count as a failure, but the number of
 * consecutive 429s is bounded. Obeys `Retry-After` (RFC 9110).
 */
import { backoff, errorCode, type Runtime } from "../../base/index.ts";
import type { Fetch, FetchResponse } from "../fetch.ts";

/** First pause between retries, as in `couch_replicator_httpc`. */
const PAUSE_MS_FIRST = 250;
/** Maximum pause, as in CouchDB. */
const PAUSE_MS_MAX = 300_000;
/** Pause after a 429 without `Retry-After`, and the minimum after any 429. */
const TOO_MANY_PAUSE_MS = 1000;
const PAUSE_MS_MIN = 100;
/** Number of consecutive 429s after which the request fails. */
const TOO_MANY_REQUESTS_MAX = 50;

export interface RetryOptions {
  /** Maximum number of retries after the first failure. */
  readonly retryCountMax: number;
  /**
   * Maximum time between the first failure and the start of a retry. It must be shorter than the
   * time after which a run counts as healthy, so that a run that does nothing but retry fails
   * before that.
   */
  readonly failingMsMax: number;
  /** Called with the pause requested by a server. */
  readonly onPause?: (pauseMs: number) => void;
  /**
   * Called before a retry, with the status of the response, or with the reason if there was none.
   */
  readonly onRetry?: (failure: RetriedFailure) => void;
}

export type RetriedFailure =
  | { readonly error: unknown; readonly status: undefined }
  | { readonly error: undefined; readonly status: number };

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
      const attempt = await tryOnce(fetch, request, clock.nowMs());
      const status = attempt.kind === "failed" ? undefined : attempt.response.status;
      trace.event("http.answered", { method: request.method, status });
      if (attempt.kind === "answered") return attempt.response;
      const nowMs = clock.monotonicMs();
      firstFailureMs ??= nowMs;
      if (attempt.kind === "too-many-requests") {
        const isTooLong = nowMs - firstFailureMs > options.failingMsMax;
        if (++waitedCount > TOO_MANY_REQUESTS_MAX || isTooLong) return attempt.response;
        attempt.response.discard();
        const pauseMs = Math.max(PAUSE_MS_MIN, attempt.askedPauseMs ?? TOO_MANY_PAUSE_MS);
        options.onPause?.(pauseMs);
        await clock.sleep(pauseMs, request.signal);
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
      options.onRetry?.(
        attempt.kind === "failed"
          ? { error: attempt.error, status: undefined }
          : { error: undefined, status: attempt.response.status },
      );
      const pauseMs = backoff({ min: PAUSE_MS_FIRST, max: PAUSE_MS_MAX }, failureCount);
      const askedPauseMs = attempt.kind === "unavailable" ? attempt.askedPauseMs : undefined;
      if (askedPauseMs !== undefined) options.onPause?.(askedPauseMs);
      await clock.sleep(Math.max(pauseMs, askedPauseMs ?? 0), request.signal);
    }
  };
}

type Attempt =
  | { readonly kind: "answered"; readonly response: FetchResponse }
  | {
      readonly kind: "unavailable" | "too-many-requests";
      readonly response: FetchResponse;
      readonly askedPauseMs: number | undefined;
    }
  | { readonly kind: "failed"; readonly error: unknown };

/**
 * Returns the pause requested by the header `Retry-After`, which is a number of seconds or a date.
 * Returns `undefined` if the header is missing or invalid.
 */
export function retryAfterMs({ headers }: FetchResponse, nowMs: number): number | undefined {
  const text = headers.get("retry-after")?.trim();
  if (text === undefined) return undefined;
  if (/^\d+(\.\d+)?$/.test(text)) return Math.min(Number(text) * 1000, PAUSE_MS_MAX);
  const atMs = Date.parse(text);
  if (Number.isNaN(atMs)) return undefined;
  // The date in `Retry-After` is based on the server's clock, which might differ from ours.
  const theirNowMs = Date.parse(headers.get("date") ?? "");
  const pauseMs = atMs - (Number.isNaN(theirNowMs) ? nowMs : theirNowMs);
  return Math.min(Math.max(0, pauseMs), PAUSE_MS_MAX);
}

async function tryOnce(
  fetch: Fetch,
  request: Parameters<Fetch>[0],
  nowMs: number,
): Promise<Attempt> {
  try {
    const response = await fetch(request);
    const { status } = response;
    if (status !== 429 && status !== 408 && status < 500) return { kind: "answered", response };
    const kind = status === 429 ? "too-many-requests" : "unavailable";
    return { kind, response, askedPauseMs: retryAfterMs(response, nowMs) };
  } catch (error) {
    request.signal.throwIfAborted();
    if (errorCode(error) === "HTTP_REQUEST_FAILED") return { kind: "failed", error };
    throw error;
  }
}
