/** Lets requests wait until the endpoint's budget allows them: each costs one request, and the bytes of both bodies. */
import { type Fetch, type FetchRequest, observeBody } from "./fetch.ts";

export type BudgetUnit = "requests" | "documents" | "bytes";

/** The part of a budget that may still be used at an endpoint. Its owner decides who shares it. */
export interface Spending {
  /** Resolves when so much may be spent, or was; rejects with `signal.reason`. Undefined: at once, as there is no limit. */
  spend(unit: BudgetUnit, count: number, signal: AbortSignal): Promise<void> | undefined;
}

/** One endpoint's budget: what changes it is counted apart from what reads it. */
export interface EndpointSpending {
  readonly read: Spending;
  readonly write: Spending;
}

export function withBudget(fetch: Fetch, spending: EndpointSpending): Fetch {
  return async (request) => {
    const direction = spending[isWrite(request) ? "write" : "read"];
    await direction.spend("requests", 1, request.signal);
    const sent = bodyLength(request);
    if (sent > 0) await direction.spend("bytes", sent, request.signal);
    const response = await fetch(request);
    // Reading on waits for the budget, and the sender for the reader.
    return observeBody(response, {
      onPiece: (byteCount) => direction.spend("bytes", byteCount, request.signal),
    });
  };
}

/** `_revs_diff`, `_bulk_get` and the rest of the POST requests look things up. */
function isWrite({ method, url }: FetchRequest): boolean {
  if (method === "PUT" || method === "DELETE") return true;
  return method === "POST" && /\/_(bulk_docs|ensure_full_commit)(\?|$)/.test(url);
}

function bodyLength({ body }: FetchRequest): number {
  return body?.length ?? 0;
}
