/** Describes the error that ended a run, in CouchDB's terms and without credentials. */

import { errorCode, OperationalError } from "../../base/index.ts";
import type { FailureClass } from "../../contract/index.ts";
import { LoginGatedError, SecretsInUse } from "../../http-client/index.ts";
import { ProtocolError } from "../../protocol/index.ts";
import { EndpointError, type ServerAnswer } from "../endpoints/endpoint.ts";
import { ServerWords } from "../endpoints/http/server-words.ts";
import { networkError } from "../endpoints/network-errors.ts";
import type { ReplicationFailure } from "../jobs/failing.ts";
import { classOfError, classOfNetworkError, classOfStatus } from "../jobs/failing.ts";

import { parseUrl } from "../request/endpoint-url.ts";

/**
 * Returns the origin of the server that the failed request could not reach; undefined for all other
 * failures.
 */
export function unreachableOrigin(error: unknown): string | undefined {
  if (!(error instanceof OperationalError) || error.code !== "HTTP_REQUEST_FAILED")
    return undefined;
  const { url, cause } = error.details;
  if (typeof url !== "string" || !networkError(cause).isOutage) return undefined;
  return parseUrl(url)?.origin;
}

/** Returns the host and port of the proxy that failed; undefined for all other failures. */
export function hostOfFailedProxy(error: unknown): string | undefined {
  for (let current = error; current instanceof Error; current = current.cause) {
    if (!(current instanceof OperationalError) || current.code !== "HTTP_REQUEST_FAILED") continue;
    const { proxy, isFaultOfProxy } = current.details;
    return isFaultOfProxy === true ? parseUrl(String(proxy))?.host : undefined;
  }
  return undefined;
}

/**
 * HTTP statuses for errors that end a run, as in CouchDB where possible. The status of all other
 * errors is 500.
 */
const STATUSES: Readonly<Record<string, number>> = {
  unauthorized: 401,
  forbidden: 403,
  egress_denied: 403,
  filter_fetch_error: 404,
};

export function statusOfFailure(error: string): number {
  return STATUSES[error] ?? 500;
}

/** Maximum length of an error name stored with a job. */
const ERROR_LENGTH_MAX = 200;
/** Maximum length of a reason stored with a job: enough for a sentence, but not for a document. */
const REASON_LENGTH_MAX = 2_000;
/** Formats text that contains no secrets. */
const WORDS = new ServerWords(new SecretsInUse());

export function describeFailure(error: unknown): ReplicationFailure {
  const described = wordsOf(error);
  return {
    error: described.error.slice(0, ERROR_LENGTH_MAX),
    reason: described.reason.slice(0, REASON_LENGTH_MAX),
  };
}

function wordsOf(error: unknown): ReplicationFailure {
  if (error instanceof EndpointError) return { error: error.error, reason: error.reason };
  if (error instanceof ProtocolError) return { error: error.error, reason: error.reason };
  if (!(error instanceof OperationalError)) return { error: "error", reason: String(error) };
  if (error.code === "KV_UNAVAILABLE") return wordsOfStore(error);
  if (error instanceof LoginGatedError) return wordsOfGate(error);
  if (error.code !== "HTTP_REQUEST_FAILED") {
    const { reason } = error.details;
    const name = error.code === "HTTP_EGRESS_REFUSED" ? "egress_denied" : error.code;
    return { error: name, reason: typeof reason === "string" ? reason : error.message };
  }
  const { method, url, cause, proxy, isFaultOfProxy, text } = error.details;
  const { wasConnected, sentence } = networkError(cause);
  const isUnknownHost = cause === "ENOTFOUND" || cause === "EAI_AGAIN";
  const way = typeof proxy === "string" ? ` through the proxy ${proxy}` : "";
  const isSent = wasConnected && isFaultOfProxy !== true;
  const asked = `${isSent ? method : "could not reach"} ${url}${way}`;
  const failed = isFaultOfProxy === true ? "proxy error: " : "";
  return {
    error: isUnknownHost ? "nxdomain" : "http_request_failed",
    reason: `${asked}: ${failed}${withWords(sentence, text)}`,
  };
}

/**
 * Adds the text of a response to the sentence. If the sentence ends with a status, the status is
 * replaced by a description of the response.
 */
function withWords(sentence: string, text: unknown): string {
  if (typeof text !== "string") return sentence;
  if (!/\d$/.test(sentence)) return text === "" ? sentence : `${sentence}: ${WORDS.shown(text)}`;
  return sentence.replace(/\d+$/, (status) => WORDS.described(Number(status), text));
}

function wordsOfGate({ details }: LoginGatedError): ReplicationFailure {
  const { origin, account, untilMs, isRefused, words } = details;
  const why = isRefused
    ? `the server rejected this password${words === "" ? "" : ` (${words})`}`
    : "the server rejected another password";
  const reason = `login at ${origin} as "${account}" not tried before ${new Date(untilMs).toISOString()}, so that the account is not locked: ${why}`;
  return { error: "unauthorized", reason };
}

/**
 * Describes an error of our own store: `insufficient_storage` if the disk is full, otherwise
 * `service_unavailable`.
 */
function wordsOfStore({ message, details: { reason } }: OperationalError): ReplicationFailure {
  const isFull = typeof reason === "string" && NO_ROOM.test(reason);
  const words = typeof reason === "string" ? `${message}: ${reason}` : message;
  return { error: isFull ? "insufficient_storage" : "service_unavailable", reason: words };
}

/** Matches disk-full errors of servers that do not report them with status 507. */
const NO_ROOM = /enospc|no space left|disk (?:is )?full|file_too_large/i;

/** Matches CouchDB's reason in a 401 response to a user whose password is correct. */
const NO_RIGHT = /^You are not a (?:db or )?server admin/;

/** Returns the class by which failures are listed and counted. */
export function classifyFailure(error: unknown): FailureClass {
  const { error: word, reason } = describeFailure(error);
  if (errorCode(error) === "HTTP_REQUEST_FAILED") {
    return classOfNetworkError(String((error as OperationalError).details.cause));
  }
  const answer = answerOf(error);
  if (answer !== undefined && NO_RIGHT.test(answer.reason)) return "forbidden";
  const known = classOfError(word);
  if (known !== "other") return known;
  if (NO_ROOM.test(answer?.reason ?? reason)) return "storage_full";
  if (answer !== undefined) return classOfStatus(answer.status) ?? "other";
  const { cause } = error as { readonly cause?: unknown };
  return cause instanceof OperationalError ? classifyFailure(cause) : known;
}

function answerOf(error: unknown): ServerAnswer | undefined {
  return error instanceof EndpointError ? error.answer : undefined;
}
