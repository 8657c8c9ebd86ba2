/** The requests for a server's changes feed, of one-shot and of continuous jobs. */

import type { JsonText } from "../../../base/index.ts";
import { filterParameters, type Selection } from "../../request/replication.ts";
import {
  type ChangedDocument,
  type ChangesRequest,
  type SourceSequence,
  sequenceText,
} from "../endpoint.ts";
import { type Method, query } from "./requests.ts";

export interface AskedChanges {
  readonly method: Method;
  readonly path: string;
  /** What the source filters by, where that is no parameter. */
  readonly body?: string;
}

/** How a feed is asked for. */
export interface FeedOptions {
  /** How long the server may be silent while nothing changes. */
  readonly timeoutMs: number;
  /** Of a feed that ends: whether few changes are expected, since it is a woken run's, or there are few documents. */
  readonly isShort: boolean;
}

/** `feed`: the parameters of the feed's kind. */
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

/** Answers of servers that cannot filter by ids, or not in this kind of feed: all changes are read then, and chosen from. */
const NOT_FILTERED: ReadonlySet<number> = new Set([400, 405, 501]);

export function knowsNoIds(status: number, selection: Selection): boolean {
  return NOT_FILTERED.has(status) && selection.kind === "doc-ids";
}

type Changes = readonly ChangedDocument[];

/** Drops the changes of documents that were not asked for: a server may ignore `doc_ids`. */
export function chooser(wanted: Selection): (changes: Changes) => Changes {
  if (wanted.kind !== "doc-ids") return (changes) => changes;
  const ids = new Set(wanted.ids);
  return (changes) => changes.filter(({ id }) => ids.has(id));
}

export function sameSequence(left: SourceSequence, right: SourceSequence): boolean {
  return sequenceText(left) === sequenceText(right);
}
