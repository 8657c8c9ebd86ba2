/** Documents with conflicts, and their leaves. */
import type { ConflictCounts, ConflictPage } from "../../contract/index.ts";
import { get, segmentOf, withQuery } from "./request.ts";

/** Number of leaves that can be compared at a time. */
export const COMPARED_MAX = 6;

export type LeafDocument = Readonly<Record<string, unknown>>;

export function readConflictCounts(
  bookmark: string | undefined,
  signal: AbortSignal,
): Promise<ConflictCounts> {
  return get(withQuery("_tandem/conflicts", after(bookmark)), signal);
}

export function readConflicts(
  database: string,
  bookmark: string | undefined,
  signal: AbortSignal,
): Promise<ConflictPage> {
  const path = `_tandem/databases/${segmentOf(database)}/conflicts`;
  return get(withQuery(path, after(bookmark)), signal);
}

/** Reads the first leaves of a document that are not deleted, the winner first. */
export async function readLeaves(
  database: string,
  id: string,
  signal: AbortSignal,
): Promise<readonly LeafDocument[]> {
  const path = `${segmentOf(database)}/${segmentOf(id)}`;
  const winner = await get<LeafDocument & { readonly _conflicts?: readonly string[] }>(
    withQuery(path, { conflicts: "true" }),
    signal,
  );
  const { _conflicts: others = [], ...document } = winner;
  const revisions = JSON.stringify(others.slice(0, COMPARED_MAX - 1));
  const found = await get<readonly { readonly ok?: LeafDocument }[]>(
    withQuery(path, { open_revs: revisions }),
    signal,
  );
  return [document, ...found.flatMap(({ ok }) => (ok === undefined ? [] : [ok]))];
}

function after(bookmark: string | undefined): Readonly<Record<string, string>> {
  return bookmark === undefined ? {} : { bookmark };
}
