/**
 * That a job fails: from the first run that fails until a success that holds, whatever state the job is in meanwhile. A job
 * that is tried again runs, and is failing all the same. Pure.
 */

import type { FailureClass } from "../../contract/index.ts";

/** Why a run ended, in CouchDB's words. */
export interface ReplicationFailure {
  readonly error: string;
  readonly reason: string;
}

/** What was asked of an endpoint when it failed. */
export type FailurePhase =
  | "open"
  | "filter"
  | "changes"
  | "compare"
  | "read"
  | "write"
  | "checkpoint";

/** Where a run failed; undefined members are not known, or have no meaning. */
export interface FailurePlace {
  readonly phase: FailurePhase | undefined;
  readonly side: "source" | "target" | undefined;
  /** Of the server, with a port that is not the scheme's; undefined for a database of our own. */
  readonly host: string | undefined;
}

export const NO_PLACE: FailurePlace = { phase: undefined, side: undefined, host: undefined };

/** Why a run failed, for those who list and count. */
export interface FailureCause extends FailurePlace {
  readonly class: FailureClass;
}

/** The last failure, and since when there is no success. */
export interface Failing extends FailureCause, ReplicationFailure {
  /** When the first run failed. */
  readonly sinceMs: number;
  /** When the last one did. */
  readonly lastMs: number;
  /** Runs that have failed since. */
  readonly tries: number;
}

/** One more run has failed. */
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

/** By the words that `_scheduler` shows. */
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
  ["egress_denied", "egress"],
  ["duplicate_job", "duplicate"],
  ["bad_rep_doc", "invalid"],
]);

/** What the words alone say. */
export function classOfError(error: string): FailureClass {
  return CLASSES_BY_ERROR.get(error) ?? "other";
}

/** What an HTTP status says, whatever it was about; undefined: nothing. */
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

/** What the system's word for a broken or refused connection says: the `cause` of HTTP_REQUEST_FAILED. */
export function classOfNetworkError(cause: string): FailureClass {
  // A login that got another answer.
  const [, status] = /^HTTP_(\d{3})$/.exec(cause) ?? [];
  if (status !== undefined) return classOfStatus(Number(status)) ?? "other";
  if (cause === "ENOTFOUND" || cause === "EAI_AGAIN") return "dns";
  if (/TIMEOUT$|^ETIMEDOUT$/.test(cause)) return "timeout";
  return TLS_ERROR.test(cause) ? "tls" : "unreachable";
}

/** Node.js's and OpenSSL's words for certificates and handshakes. */
const TLS_ERROR = /CERT|^ERR_(?:TLS|SSL)|^UNABLE_TO_|SELF_SIGNED|^EPROTO$|^HOSTNAME_MISMATCH$|CRL/;
