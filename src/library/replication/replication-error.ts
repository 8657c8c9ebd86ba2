/** Errors of the library, in CouchDB's terms. */
import {
  type DocumentFailure,
  describeFailure,
  EndpointError,
  ReplicationInvalidError,
  statusOfFailure,
} from "../../replicator/index.ts";
import type { FailedRevision } from "./options.ts";

/** A replication or comparison that failed, in CouchDB's terms and without credentials. */
export class ReplicationError extends Error {
  override readonly name = "ReplicationError";
  /** CouchDB's word for the error, such as `unauthorized` or `db_not_found`. */
  readonly error: string;
  readonly reason: string;
  /** The status of the response that caused the error, or the one that CouchDB uses for it. */
  readonly status: number;

  constructor(error: string, reason: string, status: number, options?: ErrorOptions) {
    super(`${error}: ${reason}`, options);
    this.error = error;
    this.reason = reason;
    this.status = status;
  }
}

export function replicationError(cause: unknown): ReplicationError {
  if (cause instanceof ReplicationError) return cause;
  if (cause instanceof ReplicationInvalidError) {
    return new ReplicationError(cause.error, cause.reason, BAD_REQUEST, { cause });
  }
  const { error, reason } = describeFailure(cause);
  const answer = cause instanceof EndpointError ? cause.answer : undefined;
  return new ReplicationError(error, reason, answer?.status ?? statusOfFailure(error), { cause });
}

const BAD_REQUEST = 400;

export function failedRevision(failure: DocumentFailure): FailedRevision {
  const { id, revision: rev, phase, status = null, error, reason } = failure;
  return { id, rev, phase, status, error, reason };
}
