/** Documents with conflicts, and their leaves. */
import { printJson } from "../../base/index.ts";
import type {
  ConflictCounts,
  ConflictPage,
  ConflictPolicyStatus,
  ResolutionPage,
  UndoneResolutions,
} from "../../contract/index.ts";
import { get, request, segmentOf, withQuery } from "./request.ts";

/** Number of leaves that can be compared at a time. */
export const COMPARED_MAX = 6;

/** A document as `parseJson` returns it: `printJson` prints its numbers unchanged. */
export type LeafDocument = Readonly<Record<string, unknown>>;

export function readConflictCounts(
  bookmark: string | undefined,
  signal: AbortSignal,
): Promise<ConflictCounts> {
  return get(withQuery("_tandem/conflicts", { bookmark }), signal);
}

export function readConflicts(
  database: string,
  bookmark: string | undefined,
  signal: AbortSignal,
): Promise<ConflictPage> {
  return get(withQuery(pathOf(database), { bookmark }), signal);
}

function pathOf(database: string): string {
  return `_tandem/databases/${segmentOf(database)}/conflicts`;
}

export function readPolicy(database: string, signal: AbortSignal): Promise<ConflictPolicyStatus> {
  return get(`${pathOf(database)}/policy`, signal);
}

export async function setPolicy(database: string, policy: object): Promise<void> {
  await request("PUT", `${pathOf(database)}/policy`, { body: policy });
}

export async function removePolicy(database: string): Promise<void> {
  await request("DELETE", `${pathOf(database)}/policy`);
}

/** The last resolutions. */
export function readResolutions(database: string, signal: AbortSignal): Promise<ResolutionPage> {
  return get(withQuery(`${pathOf(database)}/resolutions`, { limit: "20" }), signal);
}

/** Takes all resolutions back. */
export async function undoResolutions(database: string): Promise<{ resolutions: number }> {
  let resolutions = 0;
  for (;;) {
    const undone: UndoneResolutions = await request("POST", `${pathOf(database)}/_undo`, {
      body: {},
    });
    resolutions += undone.resolutions;
    if (!undone.more) return { resolutions };
  }
}

/** Reads the first leaves of a document that are not deleted, the winner first. */
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
