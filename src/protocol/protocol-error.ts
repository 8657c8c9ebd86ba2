/**
 * Input that violates the protocol, with CouchDB's `error` and `reason`. The server responds with
 * `status`; the client reports the error.
 */
import { OperationalError } from "../base/index.ts";

export class ProtocolError extends OperationalError {
  override readonly name = "ProtocolError";
  readonly status: number;
  readonly error: string;
  readonly reason: string;

  constructor(status: number, error: string, reason: string, options?: ErrorOptions) {
    super("PROTOCOL_BAD_INPUT", "Input violates the protocol", { error, reason }, options);
    this.status = status;
    this.error = error;
    this.reason = reason;
  }
}

export function badRequest(reason: string): ProtocolError {
  return new ProtocolError(400, "bad_request", reason);
}
