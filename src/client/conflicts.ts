/** Documents with conflicts, and how a server resolves them. */
import type { UndoneResolutions, UndoRequest } from "../contract/index.ts";
import { type Requests, segmentOf, unexpected } from "./requests.ts";

export type UndoSelection = Omit<UndoRequest, "bookmark">;
/** Counts of an undo. */
export type UndoneConflicts = Omit<UndoneResolutions, "ok" | "bookmark">;

export function conflictsPath(database: string): string {
  return `_tandem/databases/${segmentOf(database)}/conflicts`;
}

/** Removes the policy and reverts its resolutions, with as many requests as needed. */
export async function undoResolutions(
  requests: Pick<Requests, "ask">,
  database: string,
  selection: UndoSelection,
  signal: AbortSignal | undefined,
): Promise<UndoneConflicts> {
  const sum = { resolutions: 0, revisions: 0, lost: 0, kept: 0 };
  let place: Pick<UndoRequest, "bookmark"> = {};
  for (;;) {
    const path = `${conflictsPath(database)}/_undo`;
    const body = { ...selection, ...place } satisfies UndoRequest;
    const undone = await requests.ask<UndoneResolutions>("POST", path, { body, signal });
    for (const name of ["resolutions", "revisions", "lost", "kept"] as const) {
      if (typeof undone[name] !== "number") throw unexpected(200, `a number \`${name}\``);
      sum[name] += undone[name];
    }
    if (typeof undone.bookmark !== "string") return sum;
    place = { bookmark: undone.bookmark };
  }
}
