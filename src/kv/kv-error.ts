/**
 * Error codes of this layer. They have the same meaning on every engine. Comments name the
 * corresponding FoundationDB errors.
 */
import { errorCode, OperationalError } from "../base/index.ts";

const MESSAGES = {
  /** FoundationDB's error 1020: a key that was read has changed. */
  KV_CONFLICT: "The transaction conflicts with another",
  /** FoundationDB's error 1007: the read version is older than five seconds. */
  KV_TOO_OLD: "The transaction is too old",
  /** FoundationDB's error 2101. */
  KV_TOO_LARGE: "The transaction is too large",
  /** FoundationDB's error 2102. */
  KV_KEY_TOO_LARGE: "The key is too large",
  /** FoundationDB's error 2103. */
  KV_VALUE_TOO_LARGE: "The value is too large",
  /**
   * FoundationDB's error 1021: the transaction may or may not have been committed; it will not be
   * committed later.
   */
  KV_UNKNOWN_COMMIT: "It is not known whether the transaction was committed",
  /** FoundationDB's error 1025; also used for a closed store. */
  KV_CLOSED: "The store or the transaction is closed",
  /** FoundationDB's error 1031. */
  KV_TIMED_OUT: "The transaction did not finish in time",
  /** The store cannot be reached or written; see `details.reason`. */
  KV_UNAVAILABLE: "The store is unavailable",
  /** The store cannot be opened until an operator intervenes; see `details.reason`. */
  KV_UNUSABLE: "The store cannot be used",
} as const;

export type KeyValueErrorCode = keyof typeof MESSAGES;

export class KeyValueError extends OperationalError {
  override readonly name = "KeyValueError";
  declare readonly code: KeyValueErrorCode;

  constructor(
    code: KeyValueErrorCode,
    details: Readonly<Record<string, unknown>> = {},
    options?: ErrorOptions,
  ) {
    super(code, MESSAGES[code], details, options);
  }
}

/** Whether nothing was written and another attempt might succeed. */
export function isRetryable(error: unknown): boolean {
  const code = errorCode(error);
  return code === "KV_CONFLICT" || code === "KV_TOO_OLD";
}
