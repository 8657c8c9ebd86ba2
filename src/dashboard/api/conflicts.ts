/** Leaves of documents with conflicts. */
import { printJson } from "../../base/index.ts";
import { get, segmentOf, withQuery } from "./request.ts";

/** Number of leaves that can be compared at a time. */
export const COMPARED_MAX = 6;

/** A document parsed by `parseJson`, so that `printJson` can print its numbers unchanged. */
export type LeafDocument = Readonly<Record<string, unknown>>;

/** Reads up to `COMPARED_MAX` undeleted leaves of a document, winner first. */
export async function readLeaves(
  database: string,
  id: string,
  signal: AbortSignal,
): Promise<readonly LeafDocument[]> {
  const path = `${segmentOf(database)}/${segmentOf(id)}`;
  const read = (query: Readonly<Record<string, string>>): Promise<unknown> =>
    get(withQuery(path, query), signal);
  const winner = (await read({ conflicts: "true" })) as LeafDocument & {
    readonly _conflicts?: readonly string[];
  };
  const { _conflicts: others = [], ...document } = winner;
  const revisions = printJson(others.slice(0, COMPARED_MAX - 1));
  const found = (await read({ open_revs: revisions })) as readonly { readonly ok?: LeafDocument }[];
  return [document, ...found.flatMap(({ ok }) => (ok === undefined ? [] : [ok]))];
}
