/** What a database says of a replication: when it was made, and which log it has. */
import { allTogether, canonicalJson, type JsonText } from "../../base/index.ts";
import type { Endpoint, EndpointInfo } from "../endpoints/endpoint.ts";

/** The text of a log, and where it is. */
export interface FoundLog {
  /** That of today, or an older one. */
  readonly id: string;
  readonly revision: string;
  readonly body: JsonText;
}

/** A database as a run finds it: when it was made, and what it remembers of the replication. */
export interface FoundSide {
  readonly endpoint: Endpoint;
  readonly info: Pick<EndpointInfo, "instanceStartTime">;
  readonly log: FoundLog | undefined;
}

/** Servers that do not know when a database was made say so; it compares equal to anything (CouchDB 3.5). */
export const UNKNOWN_START_TIME = "0";

/** Whether a database is surely the one that it was; one that does not say when it was made may be another. */
export function isSurelySame(before: string, now: string): boolean {
  return before === now && now !== UNKNOWN_START_TIME;
}

/** Whether a database may be the one that it was, as far as it says when it was made. */
export function mayBeSame(before: string, now: string | undefined): boolean {
  return before === now || before === UNKNOWN_START_TIME || now === UNKNOWN_START_TIME;
}

/** The log that an endpoint has under this id. */
export async function readLog(
  endpoint: Endpoint,
  id: string,
  signal: AbortSignal,
): Promise<FoundLog | undefined> {
  const stored = await endpoint.readLocal(id, signal);
  return stored && { id, revision: stored.revision, body: stored.body };
}

export interface WrittenLog {
  readonly id: string;
  readonly body: JsonText;
  /** The revision that is known to be there; undefined: none. */
  readonly parent: string | undefined;
  /** When the database was made that it is for. */
  readonly madeAt: string;
}

/** Writes a log over the one that is known to be there. Returns its revision; undefined: another one is there. */
export async function writeLog(
  endpoint: Endpoint,
  { id, body, parent, madeAt }: WrittenLog,
  signal: AbortSignal,
): Promise<string | undefined> {
  const written = await endpoint.writeLocal(id, body, parent, signal, madeAt);
  if (written !== undefined) return written;
  // An answer may have been lost: what is there may be what we wrote.
  const current = await endpoint.readLocal(id, signal);
  return current !== undefined && sameJson(current.body, body) ? current.revision : undefined;
}

/** The log that an endpoint has under one of these ids, the first that there is. */
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
