/**
 * Replication ids, equal to CouchDB's version 4 (`couch_replicator_ids`).
 *
 * `baseId` names the checkpoints on both sides: what influences the result goes into it, and nothing else. `+continuous` and
 * `+create_target` make the full id of a job; they never move a checkpoint. A password is never part of an id.
 */

import { type Digests, hexEncode } from "../base/index.ts";
import { normalizeSelector } from "../protocol/index.ts";
import type { Selection } from "./endpoint.ts";
import {
  atom,
  binary,
  charlist,
  encodeTerm,
  jsonTerm,
  list,
  type Term,
  tuple,
} from "./external-term.ts";

import type { EndpointAddress, Replication } from "./replication.ts";

export const REPLICATION_ID_VERSION = 4;

export interface ReplicationId {
  readonly baseId: string;
  /** With its suffixes. */
  readonly id: string;
}

/** What the ids depend on beside the replication itself. */
export interface ReplicationIdContext {
  readonly digests: Digests;
  /** 32 hex digits, one for the whole cluster (`[couchdb] uuid`). */
  readonly serverUuid: string;
  /** Where our own databases stand for others, with a slash at the end. */
  readonly serverUrl: string;
}

/** `filterCode` is the source code of a user filter, as the design document has it. */
export function replicationId(
  context: ReplicationIdContext,
  replication: Replication,
  filterCode?: string,
): ReplicationId {
  const parts: Term[] = [
    binary(context.serverUuid),
    endpointTerm(context, replication.source),
    endpointTerm(context, replication.target),
    ...selectionTerms(replication.selection, filterCode),
  ];
  if (replication.winningRevisionsOnly) parts.push(binary("winning_revs_only"));
  if (replication.sinceSequence !== undefined) parts.push(jsonTerm(replication.sinceSequence));
  const baseId = hexEncode(context.digests.md5(encodeTerm(list(parts))));
  return { baseId, id: baseId + suffix(replication) };
}

/** The id that names the checkpoints and the list of failures: the full one without its suffixes. */
export function baseIdOf(id: string | undefined): string | undefined {
  return id?.replace(/\+.*$/s, "");
}

/** The id of a transient job: needs no network, and differs by user. */
export function transientJobId(
  context: ReplicationIdContext,
  replication: Replication,
  userName: string | null,
): string {
  const terms: Term[] = [
    binary(context.serverUuid),
    endpointTerm(context, replication.source),
    endpointTerm(context, replication.target),
    userName === null ? atom("null") : binary(userName),
    charlist(suffix(replication)),
    ...selectionTerms(replication.selection, undefined),
  ];
  if (replication.winningRevisionsOnly) terms.push(binary("winning_revs_only"));
  if (replication.sinceSequence !== undefined) terms.push(jsonTerm(replication.sinceSequence));
  return hexEncode(context.digests.md5(encodeTerm(list(terms))));
}

/** The name and function of a user filter, `undefined` for anything that needs no code. */
export function userFilter(
  selection: Selection,
): { readonly designDocument: string; readonly filterName: string } | undefined {
  if (selection.kind !== "filter" || selection.name.startsWith("_")) return undefined;
  const slash = selection.name.indexOf("/");
  return {
    designDocument: selection.name.slice(0, slash),
    filterName: selection.name.slice(slash + 1),
  };
}

function suffix({ continuous, createTarget }: Replication): string {
  return `${continuous ? "+continuous" : ""}${createTarget ? "+create_target" : ""}`;
}

function selectionTerms(selection: Selection, filterCode: string | undefined): Term[] {
  if (selection.kind === "all") return [];
  if (selection.kind === "doc-ids") return [list(selection.ids.map(binary))];
  if (selection.kind === "selector") return [jsonTerm(normalizeSelector(selection.selector))];
  const parameters = jsonTerm(selection.queryParameters);
  const user = userFilter(selection);
  if (user === undefined) return [binary(selection.name), parameters];
  if (filterCode !== undefined) return [binary(filterCode.trim()), parameters];
  return [binary(user.designDocument), binary(user.filterName), parameters];
}

const DEFAULT_PORTS: Readonly<Record<string, readonly number[]>> = {
  https: [443],
  http: [80, 5984],
};

function endpointTerm(context: ReplicationIdContext, address: EndpointAddress): Term {
  const url =
    address.kind === "http"
      ? address.url
      : `${context.serverUrl}${encodeURIComponent(address.database)}/`;
  const basic = address.kind === "http" ? address.basic : undefined;
  const headers = address.kind === "http" ? address.headers : {};
  const match = /^(https?):\/\/(\[[^\]]*\]|[^:/?#]*)(?::(\d+))?(.*)$/is.exec(url);
  const [, scheme = "http", host = "", portText, path = "/"] = match ?? [];
  const isHttps = scheme.toLowerCase() === "https";
  const port = portText === undefined ? (isHttps ? 443 : 80) : Number(portText);
  const isDefault = DEFAULT_PORTS[isHttps ? "https" : "http"]?.includes(port) === true;
  const pairs = Object.entries(headers)
    .sort(([left], [right]) => (left < right ? -1 : left > right ? 1 : 0))
    .map(([name, value]) => tuple(charlist(name), charlist(value)));
  return tuple(
    atom("remote"),
    basic === undefined ? atom("undefined") : charlist(basic.username),
    charlist(host.replace(/^\[|\]$/g, "")),
    isDefault ? atom("default") : { number: port },
    charlist(path.startsWith("/") ? path : `/${path}`),
    list(pairs),
    atom("undefined"),
  );
}
