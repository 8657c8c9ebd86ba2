/** Determines whether the document in a request might be the reason why the request failed. */
import { OperationalError } from "../../base/index.ts";
import { EndpointError, type ServerAnswer } from "./endpoint.ts";
import { networkError } from "./network-errors.ts";
import { mayConcernDocument } from "./refusal-status.ts";

/** A failure of a request that might be due to the document in the request. */
export type Suspicion =
  /** The server responded with an error. */
  | { readonly kind: "answered"; readonly answer: ServerAnswer }
  /**
   * `broken-off`: the request or the response was interrupted. `unanswered`: no response arrived in
   * time.
   */
  | { readonly kind: "broken-off" | "unanswered" };

/**
 * Returns the failure if the document in the request might have caused it, and `undefined`
 * otherwise.
 */
export function suspicionOf(error: unknown): Suspicion | undefined {
  if (error instanceof EndpointError) {
    const { answer } = error;
    if (answer === undefined || !mayConcernDocument(answer.status)) return undefined;
    return { kind: "answered", answer };
  }
  if (!(error instanceof OperationalError)) return undefined;
  if (error.code === "PROTOCOL_BAD_INPUT") return { kind: "broken-off" };
  const { cause, isFaultOfProxy } = error.details;
  if (error.code !== "HTTP_REQUEST_FAILED" || isFaultOfProxy === true) return undefined;
  if (!networkError(cause).wasConnected) return undefined;
  return { kind: cause === "UND_ERR_HEADERS_TIMEOUT" ? "unanswered" : "broken-off" };
}

/**
 * Whether the failure of a request for many documents might be due to one of them. True for a 5xx
 * response, and for a response that broke off.
 */
export function mayConcernOne(error: unknown): boolean {
  const suspicion = suspicionOf(error);
  return suspicion?.kind === "answered" ? suspicion.answer.status >= 500 : suspicion !== undefined;
}

/**
 * Statuses with which a server rejects a request as a whole, because one of the ids is invalid or
 * the request is too long.
 */
const QUESTION_REFUSED: ReadonlySet<number> = new Set([400, 413]);

/**
 * Whether the failure of a `_revs_diff` request for many documents might be due to one of them. In
 * contrast to the requests in `mayConcernOne`, a server might reject such a request as a whole.
 */
export function mayConcernOneAsked(error: unknown): boolean {
  const suspicion = suspicionOf(error);
  const isRefused = suspicion?.kind === "answered" && QUESTION_REFUSED.has(suspicion.answer.status);
  return isRefused || mayConcernOne(error);
}
