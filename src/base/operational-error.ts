/**
 * An error that is part of normal operation: a conflict, a closed store, an unreachable peer.
 *
 * Callers decide by `code`, which is stable and begins with the layer (`KV_CONFLICT`,
 * `JOBS_HALTED`). The message is static, so that errors can be counted. Variable parts are in
 * `details`, which never contains a secret.
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

/** Returns the `code` of an operational error, or undefined for anything else. */
export function errorCode(error: unknown): string | undefined {
  return error instanceof OperationalError ? error.code : undefined;
}
