/** Whether a failed request may be due to the document that it was about. */
import { OperationalError } from "../../base/index.ts";
import { EndpointError, type ServerAnswer } from "./endpoint.ts";
import { networkError } from "./network-errors.ts";
import { mayConcernDocument } from "./refusal-status.ts";

/** What of a failure may be due to the document that the server was asked about. */
export type Suspicion =
  /** It answered with an error. */
  | { readonly kind: "answered"; readonly answer: ServerAnswer }
  /** Its answer, or what was sent to it, broke off; or no answer came. */
  | { readonly kind: "broken-off" | "unanswered" };

/** Undefined for failures that cannot be due to a document. */
export function suspicionOf(error: unknown): Suspicion | undefined {
  if (error instanceof EndpointError) {
    const { answer } = error;
    if (answer === undefined || !mayConcernDocument(answer.status)) return undefined;
    return { kind: "answered", answer };
  }
  if (!(error instanceof OperationalError)) return undefined;
  if (error.code === "PROTOCOL_BAD_INPUT") return { kind: "broken-off" };
  const { cause } = error.details;
  if (error.code !== "HTTP_REQUEST_FAILED" || !networkError(cause).wasConnected) return undefined;
  return { kind: cause === "UND_ERR_HEADERS_TIMEOUT" ? "unanswered" : "broken-off" };
}

/** Whether a request for many documents may have failed over one of them: by an answer 5xx, or by breaking off. */
export function mayConcernOne(error: unknown): boolean {
  const suspicion = suspicionOf(error);
  return suspicion?.kind === "answered" ? suspicion.answer.status >= 500 : suspicion !== undefined;
}

/** What a server answers that cannot take a question as it is: one of the ids in it is none to this server, or it is too long. */
const QUESTION_REFUSED: ReadonlySet<number> = new Set([400, 413]);

/** The same of a question about many documents, which is refused as a whole. */
export function mayConcernOneAsked(error: unknown): boolean {
  const suspicion = suspicionOf(error);
  const isRefused = suspicion?.kind === "answered" && QUESTION_REFUSED.has(suspicion.answer.status);
  return isRefused || mayConcernOne(error);
}
