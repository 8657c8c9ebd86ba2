/** A database's creation time and replication log. */
import { allTogether, canonicalJson, type JsonText } from "../../base/index.ts";
import { type Endpoint, EndpointError, type EndpointInfo } from "../endpoints/endpoint.ts";

/** A replication log, as stored on an endpoint. */
export interface FoundLog {
  /** Id of the `_local` document: the current replication id, or an older one. */
  readonly id: string;
  readonly revision: string;
  readonly body: JsonText;
}

/** A database at the start of a run: its creation time and log. */
export interface FoundSide {
  readonly endpoint: Endpoint;
  readonly info: Pick<EndpointInfo, "instanceStartTime">;
  readonly log: FoundLog | undefined;
}

/** Stands for an unknown creation time (CouchDB 3.5). It counts as equal to any other time. */
export const UNKNOWN_START_TIME = "0";

/** Whether two creation times prove that the database is the same; false for an unknown time. */
export function isSurelySame(before: string, now: string): boolean {
  return before === now && now !== UNKNOWN_START_TIME;
}

/** Whether two creation times can belong to the same database; true if either time is unknown. */
export function mayBeSame(before: string, now: string | undefined): boolean {
  return before === now || before === UNKNOWN_START_TIME || now === UNKNOWN_START_TIME;
}

/** Reads an endpoint's log with this id. */
export async function readLog(
  endpoint: Endpoint,
  id: string,
  signal: AbortSignal,
): Promise<FoundLog | undefined> {
  const stored = await endpoint.readLocal(id, signal);
  return stored && { id, revision: stored.revision, body: stored.body };
}

/**
 * Whether the account is allowed to read the endpoint's documents, but not to use its `_local`
 * documents.
 */
export function isReadOnly(error: unknown): boolean {
  return error instanceof EndpointError && error.error === "read_only";
}

/**
 * Returns undefined if the account is not allowed to read the source's `_local` documents; the
 * source's log is then stored on this node. Throws any other error.
 */
export function noneIfReadOnly(error: unknown): undefined {
  if (!isReadOnly(error)) throw error;
}

export interface WrittenLog {
  readonly id: string;
  readonly body: JsonText;
  /** Revision of the log to be replaced, if any. */
  readonly parent: string | undefined;
  /** Creation time of the database that the log is meant for. */
  readonly madeAt: string;
}

/**
 * Replaces the last known log. Returns the new revision, or undefined if the stored log is a
 * different one.
 */
export async function writeLog(
  endpoint: Endpoint,
  { id, body, parent, madeAt }: WrittenLog,
  signal: AbortSignal,
): Promise<string | undefined> {
  const written = await endpoint.writeLocal(id, body, parent, signal, madeAt);
  if (written !== undefined) return written;
  // The response might have been lost, so check whether the stored log is `body`.
  const current = await endpoint.readLocal(id, signal);
  return current !== undefined && sameJson(current.body, body) ? current.revision : undefined;
}

/** Returns the first log that exists under these ids. */
export async function readOlderLog(
  endpoint: Endpoint,
  ids: readonly string[],
  signal: AbortSignal,
): Promise<FoundLog | undefined> {
  const found = await allTogether(
    signal,
    ids.map((id) => (taskSignal: AbortSignal) => readLog(endpoint, id, taskSignal)),
  );
  return found.find((log) => log !== undefined);
}

function sameJson(left: JsonText, right: JsonText): boolean {
  return canonicalJson(left) === canonicalJson(right);
}
