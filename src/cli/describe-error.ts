/** An error in a sentence, for standard error. */
import { OperationalError } from "../base/index.ts";

/** The message, and the reason where the error knows one: which folder, which file, what to install. */
export function describeError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const reason = error instanceof OperationalError ? error.details.reason : undefined;
  return reason === undefined ? error.message : `${error.message}: ${String(reason)}`;
}
