/**
 * Replication ids, equal to CouchDB's ids of version 4 (`couch_replicator_ids`).
 *
 * `baseId` identifies the checkpoints on both sides. It depends on everything that influences the
 * result, and on nothing else. The full id of a job adds `+continuous` and `+create_target`, which
 * do not affect checkpoints. As in CouchDB, ids never include a password or token, but do include a
 * user name.
 */
import { append, type Digests, md5HexOf, parseJson } from "../../base/index.ts";
import {
  atom,
  binaries,
  binary,
  charlist,
  encodeListPieces,
  encodeOnce,
  hashedSelector,
  jsonTerm,
  list,
  percentEncode,
  type Selector,
  type Term,
  tuple,
} from "../../protocol/index.ts";
import { endpointUrl, writtenUrl } from "./endpoint-url.ts";
import { omissionMembers } from "./parse-omissions.ts";
import type { EndpointAddress, Replication, Selection } from "./replication.ts";

export const REPLICATION_ID_VERSION = 4;

export interface ReplicationId {
  readonly baseId: string;
  /** Other ids under which CouchDB might have stored checkpoints, most likely first. */
  readonly olderBaseIds: readonly string[];
  /** The full id, with suffixes. */
  readonly id: string;
}

/** Inputs of replication ids in addition to the replication. */
export interface ReplicationIdContext {
  readonly digests: Digests;
  /** UUID of the cluster (`[couchdb] uuid`), 32 hex digits. */
  readonly serverUuid: string;
  /** Host name of the server: part of replication ids before version 3. */
  readonly hostName: string;
  readonly port: number;
  /** Public URL of local databases, ending in a slash. */
  readonly serverUrl: string;
}

/**
 * Computes the replication ids. `filterCode` is the source code of a user filter in its design
 * document.
 */
export function replicationId(
  context: ReplicationIdContext,
  replication: Replication,
  filterCode?: string,
): ReplicationId {
  const hash = hashWithSelection(context, replication, filterCode);
  const endpoints = (encode: EndpointEncoding) => endpointTerms(context, replication, encode);
  const uuid = binary(context.serverUuid);
  const host = charlist(context.hostName);
  const baseId = hash(uuid, ...endpoints(endpointTerm));
  let olderBaseIds: readonly string[] | undefined;
  return {
    baseId,
    // Computed on demand, because most runs need no older ids.
    get olderBaseIds() {
      olderBaseIds ??= [
        hash(uuid, ...endpoints(endpointTermWithCredentials)),
        hash(uuid, ...endpoints(urlTerm)),
        hash(host, { number: context.port }, ...endpoints(urlTerm)),
        hash(host, ...endpoints(urlTerm)),
      ].filter((id) => id !== baseId);
      return olderBaseIds;
    },
    id: baseId + suffix(replication),
  };
}

/** Returns a function that hashes the given terms together with the terms of the selection. */
function hashWithSelection(
  { digests }: ReplicationIdContext,
  replication: Replication,
  filterCode: string | undefined,
): (...prefix: readonly Term[]) => string {
  const selection = selectionTerms(replication.selection, filterCode);
  if (replication.winningRevisionsOnly) selection.push(binary("winning_revs_only"));
  append(selection, sinceTerms(replication));
  append(selection, omissionTerms(replication));
  // Encode each term only once: the terms can contain ten thousand ids, and are part of five
  // hashes.
  const encoded = selection.map(encodeOnce);
  return (...prefix) => md5HexOf(digests, encodeListPieces([...prefix, ...encoded]));
}

function endpointTerms(
  context: ReplicationIdContext,
  { source, target }: Replication,
  encode: EndpointEncoding,
): [Term, Term] {
  return [encode(context, source), encode(context, target)];
}

type EndpointEncoding = (context: ReplicationIdContext, address: EndpointAddress) => Term;

/** Returns the id of the checkpoints and the list of failures: the full id without suffixes. */
export function baseIdOf(id: string): string;
export function baseIdOf(id: string | undefined): string | undefined;
export function baseIdOf(id: string | undefined): string | undefined {
  return id?.replace(/\+.*$/s, "");
}

/** Returns the id of a transient job: computed without the network, and different for each user. */
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
  append(terms, sinceTerms(replication));
  append(terms, omissionTerms(replication));
  return md5HexOf(context.digests, encodeListPieces(terms));
}

/** Returns the full id, or undefined for a user filter, whose code must be read from the source. */
export function knownReplicationId(
  context: ReplicationIdContext,
  replication: Replication,
): string | undefined {
  if (userFilter(replication.selection) !== undefined) return undefined;
  const hash = hashWithSelection(context, replication, undefined);
  const endpoints = endpointTerms(context, replication, endpointTerm);
  return hash(binary(context.serverUuid), ...endpoints) + suffix(replication);
}

/** Returns the name and function of a user filter; `undefined` for any other selection. */
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
  if (selection.kind === "doc-ids") return [binaries(selection.ids)];
  if (selection.kind === "selector") {
    return [jsonTerm(hashedSelector(parseJson(selection.selector) as Selector))];
  }
  const parameters = jsonTerm(parseJson(selection.queryParameters));
  const user = userFilter(selection);
  if (user === undefined) return [binary(selection.name), parameters];
  if (filterCode !== undefined) return [binary(trimmed(filterCode)), parameters];
  return [binary(user.designDocument), binary(user.filterName), parameters];
}

function sinceTerms({ sinceSequence, sinceIsJson }: Replication): Term[] {
  if (sinceSequence === undefined) return [];
  return [jsonTerm(sinceIsJson ? parseJson(String(sinceSequence)) : sinceSequence)];
}

/**
 * Returns the terms for omissions. CouchDB has no omissions, so these terms are only added to the
 * ids of replications that use them.
 */
function omissionTerms({ omissions }: Replication): Term[] {
  return omissions === undefined ? [] : [jsonTerm(omissionMembers(omissions))];
}

/**
 * Trims source code as CouchDB does: removes only spaces, and only if the code is a single line.
 */
function trimmed(code: string): string {
  return code.replace(/^ *([^\n]*?) *(?=\n?$)/, "$1");
}

const DEFAULT_PORTS: Readonly<Record<"http" | "https", readonly number[]>> = {
  https: [443],
  http: [80, 5984],
};

/**
 * Headers that contain credentials. They are not part of the id, so that a new token does not start
 * a new replication.
 */
const CREDENTIAL_HEADERS = new Set(["authorization", "cookie", "proxy-authorization"]);

/**
 * Returns the term for an endpoint in replication ids of version 4, without the credentials in the
 * endpoint's headers.
 */
function endpointTerm(context: ReplicationIdContext, address: EndpointAddress): Term {
  const headers = Object.entries(headersOf(address)).filter(
    ([name]) => !CREDENTIAL_HEADERS.has(name.toLowerCase()),
  );
  return termOf(context, address, Object.fromEntries(headers));
}

/**
 * Returns the term of an endpoint in CouchDB's ids of version 4, where a token in a header affects
 * the id.
 */
function endpointTermWithCredentials(
  context: ReplicationIdContext,
  address: EndpointAddress,
): Term {
  return termOf(context, address, headersOf(address));
}

function termOf(context: ReplicationIdContext, address: EndpointAddress, headers: Headers): Term {
  const { basic, writtenUsername } = address.kind === "http" ? address : {};
  const { isHttps, host, port, path } =
    address.kind === "http" ? endpointUrl(address).written : writtenUrl(urlOf(context, address));
  return tuple(
    atom("remote"),
    basic === undefined ? atom("undefined") : charlist(writtenUsername ?? basic.username),
    charlist(host),
    DEFAULT_PORTS[isHttps ? "https" : "http"].includes(port) ? atom("default") : { number: port },
    charlist(path),
    headersTerm(headers),
    atom("undefined"),
  );
}

/** Default of the header `Accept`. CouchDB's ids omit a header with exactly this value. */
const DEFAULT_ACCEPT = "application/json";

/** Returns the term of an endpoint in replication ids of versions 1 to 3. */
function urlTerm(context: ReplicationIdContext, address: EndpointAddress): Term {
  return tuple(atom("remote"), charlist(urlOf(context, address)), headersTerm(headersOf(address)));
}

function urlOf(context: ReplicationIdContext, address: EndpointAddress): string {
  if (address.kind === "http") return address.url;
  return `${context.serverUrl}${percentEncode(address.database)}/`;
}

type Headers = Readonly<Record<string, string>>;

function headersOf(address: EndpointAddress): Headers {
  return address.kind === "http" ? address.headers : {};
}

function headersTerm(headers: Headers): Term {
  const pairs = Object.entries(headers)
    .filter(([name, value]) => name !== "Accept" || value !== DEFAULT_ACCEPT)
    .sort(([left], [right]) => (left < right ? -1 : left > right ? 1 : 0))
    .map(([name, value]) => tuple(charlist(name), charlist(value)));
  return list(pairs);
}
