/** The table of all error codes with their HTTP statuses. */
import { errorCode, OperationalError } from "../../base/index.ts";
import { SandboxError } from "../../databases/index.ts";
import { ProtocolError } from "../../protocol/index.ts";
import type { ApiResponse } from "./exchange.ts";
import { json } from "./responses.ts";

interface ErrorResponse {
  readonly status: number;
  readonly error: string;
  /** CouchDB's reason. Default: the error's own `reason`, or its message. */
  readonly reason?: string;
}

/** Members of an error response: `error`, `reason` and any additional ones. */
type ErrorMembers = Readonly<Record<"error" | "reason", string>> &
  Readonly<Record<string, unknown>>;

/** Suggested delay before repeating a request that cannot be processed now. */
const RETRY_AFTER_SEC = 1;

const TRY_AGAIN = { status: 503, error: "service_unavailable" } as const;

export const ERROR_RESPONSES: Readonly<Record<string, ErrorResponse>> = {
  STORE_DATABASE_NOT_FOUND: {
    status: 404,
    error: "not_found",
    reason: "Database does not exist.",
  },
  STORE_DATABASE_EXISTS: {
    status: 412,
    error: "file_exists",
    reason: "The database could not be created, the file already exists.",
  },
  STORE_DATABASE_NAME_INVALID: { status: 400, error: "illegal_database_name" },
  STORE_DOCUMENT_ID_INVALID: { status: 400, error: "illegal_docid" },
  STORE_DOCUMENT_TOO_LARGE: { status: 413, error: "document_too_large" },
  STORE_SECURITY_TOO_LARGE: { status: 413, error: "too_large" },
  STORE_REVISION_INVALID: { status: 400, error: "bad_request", reason: "Invalid rev format" },
  STORE_REVISION_LIMIT_INVALID: {
    status: 400,
    error: "bad_request",
    reason: "The revision limit must be a positive integer",
  },
  STORE_VALIDATION_UNSETTLED: TRY_AGAIN,
  STORE_SEQUENCE_INVALID: {
    status: 400,
    error: "bad_request",
    reason: "Malformed sequence supplied in 'since' parameter.",
  },
  STORE_ATTACHMENT_NAME_INVALID: { status: 400, error: "bad_request" },
  STORE_ATTACHMENT_DIGEST_MISMATCH: {
    status: 400,
    error: "content_md5_mismatch",
    reason: "Possible message corruption.",
  },
  STORE_ATTACHMENT_LENGTH_MISMATCH: { status: 400, error: "bad_request" },
  STORE_ATTACHMENT_ENCODING_INVALID: { status: 400, error: "bad_request" },
  STORE_ATTACHMENT_CONTENT_GONE: {
    status: 404,
    error: "not_found",
    reason: "Document is missing attachment",
  },
  CONFIG_INVALID: { status: 400, error: "bad_request" },
  CONFIG_NOT_SAVED: TRY_AGAIN,
  REPLICATOR_INVALID: { status: 400, error: "bad_request" },
  // As in CouchDB, 401 even for authenticated users.
  REPLICATOR_JOB_NOT_YOURS: { status: 401, error: "unauthorized" },
  KV_TOO_LARGE: { status: 413, error: "too_large", reason: "the request entity is too large" },
  KV_KEY_TOO_LARGE: {
    status: 400,
    error: "bad_request",
    reason: "A key in the request is too long",
  },
  SECRETS_KEY_MISSING: TRY_AGAIN,
  SECRETS_NO_NEW_KEY: { status: 409, error: "conflict" },
  SECRETS_DAMAGED: { status: 500, error: "internal_server_error" },
  KV_CONFLICT: TRY_AGAIN,
  KV_TOO_OLD: TRY_AGAIN,
  KV_TIMED_OUT: TRY_AGAIN,
  KV_UNKNOWN_COMMIT: TRY_AGAIN,
  KV_UNAVAILABLE: TRY_AGAIN,
  KV_UNUSABLE: TRY_AGAIN,
  FORMAT_NOT_ENABLED: { status: 409, error: "conflict" },
  KV_CLOSED: TRY_AGAIN,
  API_SERVER_STOPPING: TRY_AGAIN,
  API_OVERLOADED: TRY_AGAIN,
  REPLICATOR_CHECKS_BUSY: TRY_AGAIN,
  REPLICATOR_NO_NODE: { status: 503, error: "no_replication_node" },
};

const UNEXPECTED = {
  status: 500,
  error: "internal_server_error",
  reason: "Internal error; to find its cause, search the server's log for the X-Couch-Request-ID",
} as const;

/** The error as reported to the client. */
export interface ErrorAnswer {
  readonly status: number;
  readonly error: string;
  readonly reason: string;
}

/** Whether this is an expected error, listed in the table, as opposed to a bug. */
export function isExpected(error: unknown): boolean {
  if (error instanceof ProtocolError || error instanceof SandboxError) return true;
  if (isTooDeep(error)) return true;
  return ERROR_RESPONSES[errorCode(error) ?? ""] !== undefined;
}

/** A stack overflow caused by deep nesting in the request counts as a client error. */
function isTooDeep(error: unknown): boolean {
  return error instanceof RangeError && error.message.includes("call stack");
}

export function errorAnswer(error: unknown): ErrorAnswer {
  if (isTooDeep(error)) {
    return { status: 400, error: "bad_request", reason: "The JSON is nested too deeply" };
  }
  if (error instanceof ProtocolError) {
    return { status: error.status, error: error.error, reason: error.reason };
  }
  // A missing function is a 404. As in CouchDB, all other failures are a 500 with the message of
  // the function.
  if (error instanceof SandboxError) {
    const { error: name, reason } = error;
    return { status: name === "not_found" ? 404 : 500, error: name, reason };
  }
  const row = ERROR_RESPONSES[errorCode(error) ?? ""];
  if (row === undefined || !(error instanceof OperationalError)) return UNEXPECTED;
  // As in CouchDB, some invalid replications have error words of their own.
  const word = "error" in error && typeof error.error === "string" ? error.error : row.error;
  return { status: row.status, error: word, reason: row.reason ?? reasonOf(error) };
}

/** Whether the request is invalid. Repeating an invalid request cannot succeed. */
export function isInvalidRequest(error: unknown): boolean {
  return isExpected(error) && [400, 413].includes(errorAnswer(error).status);
}

/** An error as a response. Unexpected errors reveal no details. */
export function errorResponse(error: unknown): ApiResponse {
  const { status, error: name, reason } = errorAnswer(error);
  const members = { error: name, reason };
  return status === TRY_AGAIN.status ? comeBack(members) : json(status, members);
}

/**
 * Creates a 503 response with `Retry-After`, for a request that might succeed if repeated later.
 */
export function comeBack(members: ErrorMembers): ApiResponse {
  return json(TRY_AGAIN.status, members, { "Retry-After": String(RETRY_AFTER_SEC) });
}

export function methodNotAllowed(allowed: readonly string[]): ApiResponse {
  const methods = allowed.join(",");
  const body = { error: "method_not_allowed", reason: `Only ${methods} allowed` };
  return json(405, body, { Allow: methods });
}

/** CouchDB's reason for an invalid database name. */
export function databaseNameFault(name: string): string {
  return (
    `Name: '${name}'. Only lowercase characters (a-z), digits (0-9), and any of the characters ` +
    "_, $, (, ), +, -, and / are allowed. Must begin with a letter."
  );
}

function reasonOf(error: OperationalError): string {
  const { reason, database, id } = error.details;
  if (error.code === "STORE_DATABASE_NAME_INVALID") return databaseNameFault(String(database));
  if (error.code === "STORE_DOCUMENT_TOO_LARGE" && typeof id === "string") return id;
  return typeof reason === "string" ? reason : error.message;
}
