/**
 * Failure status of a job. It lasts from the job's first failed run until a lasting success,
 * regardless of the job's state in between. A job being retried is running, but still failing.
 * Pure.
 */

import type { FailureClass } from "../../contract/index.ts";
import { isAnswerOfProxy } from "../endpoints/network-errors.ts";

/** Why a run ended, in CouchDB's terms. */
export interface ReplicationFailure {
  readonly error: string;
  readonly reason: string;
}

/** The endpoint operation that failed. */
export type FailurePhase =
  | "open"
  | "filter"
  | "changes"
  | "compare"
  | "read"
  | "write"
  | "checkpoint";

/** Where a run failed. Members are undefined if unknown or not applicable. */
export interface FailurePlace {
  readonly phase: FailurePhase | undefined;
  readonly side: "source" | "target" | undefined;
  /** Host, with any non-default port; undefined for a local database. */
  readonly host: string | undefined;
}

export const NO_PLACE: FailurePlace = { phase: undefined, side: undefined, host: undefined };

/** Cause of a failure, for lists and counters. */
export interface FailureCause extends FailurePlace {
  readonly class: FailureClass;
}

/** Failure status: the last failure, and the failed runs since the last success. */
export interface Failing extends FailureCause, ReplicationFailure {
  /** Time of the first failed run. */
  readonly sinceMs: number;
  /** Time of the last failed run. */
  readonly lastMs: number;
  /** Number of failed runs. */
  readonly tries: number;
}

/** Returns the failure status after another failed run. */
export function failingAfter(
  before: Failing | undefined,
  { error, reason }: ReplicationFailure,
  cause: FailureCause,
  nowMs: number,
): Failing {
  const { class: failureClass, phase, side, host } = cause;
  return {
    sinceMs: before?.sinceMs ?? nowMs,
    lastMs: nowMs,
    tries: (before?.tries ?? 0) + 1,
    class: failureClass,
    error,
    reason,
    phase,
    side,
    host,
  };
}

/** Failure classes by error name, as shown by `_scheduler`. */
const CLASSES_BY_ERROR: ReadonlyMap<string, FailureClass> = new Map([
  ["nxdomain", "dns"],
  ["timeout", "timeout"],
  ["unauthorized", "unauthorized"],
  ["forbidden", "forbidden"],
  ["read_only", "forbidden"],
  ["db_not_found", "not_found"],
  ["not_found", "not_found"],
  ["max_backoff", "rate_limited"],
  ["insufficient_storage", "storage_full"],
  ["internal_server_error", "server_error"],
  ["service_unavailable", "server_error"],
  ["document_failed", "refused_document"],
  ["too_many_failures", "refused_document"],
  ["doc_id_too_long", "refused_document"],
  ["filter_fetch_error", "filter"],
  ["filter_failed", "filter"],
  ["egress_denied", "egress"],
  ["duplicate_job", "duplicate"],
  ["bad_rep_doc", "invalid"],
]);

export function classOfError(error: string): FailureClass {
  return CLASSES_BY_ERROR.get(error) ?? "other";
}

/**
 * Returns the failure class of an HTTP status, or undefined if the status has no separate class.
 */
export function classOfStatus(status: number): FailureClass | undefined {
  switch (status) {
    case 401:
      return "unauthorized";
    case 403:
    case 405:
      return "forbidden";
    case 404:
      return "not_found";
    case 408:
      return "timeout";
    case 429:
      return "rate_limited";
    case 507:
      return "storage_full";
    default:
      return status >= 500 ? "server_error" : undefined;
  }
}

/** Returns the class of a network error (the `cause` of HTTP_REQUEST_FAILED). */
export function classOfNetworkError(cause: string): FailureClass {
  // A login with an unexpected status has the cause `HTTP_` followed by the status.
  const [, status] = /^HTTP_(\d{3})$/.exec(cause) ?? [];
  if (status !== undefined) return classOfStatus(Number(status)) ?? "other";
  if (cause === "TOKEN_UNUSABLE") return "other";
  if (isAnswerOfProxy(cause)) return "proxy";
  if (cause === "ENOTFOUND" || cause === "EAI_AGAIN") return "dns";
  if (/TIMEOUT$|^ETIMEDOUT$/.test(cause)) return "timeout";
  return TLS_ERROR.test(cause) ? "tls" : "unreachable";
}

/** Error codes of Node.js and OpenSSL for certificates and handshakes. */
const TLS_ERROR = /CERT|^ERR_(?:TLS|SSL)|^UNABLE_TO_|SELF_SIGNED|^EPROTO$|^HOSTNAME_MISMATCH$|CRL/;
