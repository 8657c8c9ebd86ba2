/** Requests for a server's changes feed, for one-shot and continuous jobs. */

import type { JsonText } from "../../../base/index.ts";
import { hasTimeForm } from "../../../protocol/index.ts";
import { filterParameters, type Selection } from "../../request/replication.ts";
import {
  type ChangedDocument,
  type ChangesRequest,
  EndpointError,
  type SourceSequence,
  sequenceText,
} from "../endpoint.ts";
import { parseObject } from "./json-answer.ts";
import { type HttpRequests, type Method, query } from "./requests.ts";

export interface AskedChanges {
  readonly method: Method;
  readonly path: string;
  /** Body of a POST request: the document ids or selector that filter the feed. */
  readonly body?: string;
}

export interface FeedOptions {
  /** Time for which the server is allowed to stay silent while nothing changes. */
  readonly timeoutMs: number;
  /**
   * For a one-shot feed: whether a short response is expected, because a watcher has woken the run
   * or the database has few documents.
   */
  readonly isShort: boolean;
}

/**
 * Builds the request for a feed. `feed` contains the parameters that depend on the kind of feed.
 */
export function askedChanges(
  { selection, winningRevisionsOnly }: ChangesRequest,
  since: SourceSequence,
  feed: Readonly<Record<string, string>>,
): AskedChanges {
  const parameters: Record<string, string> = {
    ...feed,
    style: winningRevisionsOnly ? "main_only" : "all_docs",
    since: sequenceText(since),
  };
  let filter: JsonText | undefined;
  if (selection.kind === "doc-ids") {
    parameters.filter = "_doc_ids";
    filter = JSON.stringify({ doc_ids: selection.ids });
  } else if (selection.kind === "selector") {
    parameters.filter = "_selector";
    filter = `{"selector":${selection.selector}}`;
  } else if (selection.kind === "filter") {
    parameters.filter = selection.name;
    for (const [name, value] of filterParameters(selection)) parameters[name] ??= value;
  }
  const path = `_changes${query(parameters)}`;
  if (filter === undefined) return { method: "GET", path };
  return { method: "POST", path, body: filter };
}

/**
 * Status codes of servers that cannot filter this kind of feed by document ids. All changes are
 * then read, and filtered locally.
 */
const NOT_FILTERED: ReadonlySet<number> = new Set([400, 405, 501]);

export function knowsNoIds(status: number, selection: Selection): boolean {
  return NOT_FILTERED.has(status) && selection.kind === "doc-ids";
}

type Changes = readonly ChangedDocument[];

/**
 * Returns a function that drops changes of documents that were not requested, because a server
 * might ignore `doc_ids`.
 */
export function chooser(wanted: Selection): (changes: Changes) => Changes {
  if (wanted.kind !== "doc-ids") return (changes) => changes;
  const ids = new Set(wanted.ids);
  return (changes) => changes.filter(({ id }) => ids.has(id));
}

/**
 * Matches the `reason` with which CouchDB and PouchDB Server report a missing database, as opposed
 * to a missing filter.
 */
const NO_DATABASE = /database does not exist|no_db_file/i;

/** Returns the error for an error response to a `_changes` request. */
export function changesFailed(
  requests: HttpRequests,
  path: string,
  { status, text }: { readonly status: number; readonly text: string },
  { selection, since }: ChangesRequest,
): EndpointError {
  if (status === 401 || status === 403) return requests.refused(status, text);
  const failure = requests.unexpected("changes_req_failed", path, { status }, text);
  const { answer } = failure;
  const renamed = (error: string, reason: string): EndpointError =>
    new EndpointError(error, reason, answer === undefined ? {} : { answer });
  if (selection.kind === "filter" && isOfFilter(status, text)) {
    const reason = `filter ${selection.name}: ${failure.reason}`;
    return renamed(status === 404 ? "filter_fetch_error" : "filter_failed", reason);
  }
  const isTimeRefused = status === 400 && typeof since === "string" && hasTimeForm(since);
  if (!isTimeRefused) return failure;
  const hint = "times in since_seq require a CouchDB later than 3.5";
  return renamed(failure.error, `${failure.reason} (${hint})`);
}

/** Whether a CouchDB server reports that the filter is missing or has thrown an error. */
function isOfFilter(status: number, text: string): boolean {
  const { error, reason } = parseObject(text) ?? {};
  if (typeof error !== "string" || typeof reason !== "string") return false;
  return status === 404 ? !NO_DATABASE.test(reason) : status === 400 || status === 500;
}
