/**
 * Errors that are part of normal operation: a conflict, a closed store, a peer that is away.
 *
 * Callers decide by `code`, which is stable and begins with the layer (`KV_CONFLICT`, `JOBS_HALTED`). The message is
 * static, so errors can be counted. The variable parts are in `details`, which never holds a secret.
 */
export class OperationalError extends Error {
  override readonly name: string = "OperationalError";
  readonly code: string;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(
    code: string,
    message: string,
    details: Readonly<Record<string, unknown>> = {},
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.code = code;
    this.details = details;
  }
}

/** The `code` of an operational error; undefined for anything else. */
export function errorCode(error: unknown): string | undefined {
  return error instanceof OperationalError ? error.code : undefined;
}
