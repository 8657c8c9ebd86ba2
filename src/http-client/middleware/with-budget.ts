/**
 * Delays requests until the endpoint's budget allows them. Each request counts as one request. The
 * bytes of its body and of the response's body count as well.
 */
import { type Fetch, type FetchRequest, observeBody } from "../fetch.ts";

export type BudgetUnit = "requests" | "documents" | "bytes";

/** The remaining budget of an endpoint, which can be shared. */
export interface Spending {
  /**
   * Charges the amount. Resolves when the budget allows it; rejects with `signal.reason`. Returns
   * `undefined` if there is no limit.
   */
  spend(unit: BudgetUnit, count: number, signal: AbortSignal): Promise<void> | undefined;
}

/** The budget of one endpoint, separate for reads and writes. */
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
    // Reading waits for the budget, which slows the sender down through backpressure.
    return observeBody(response, {
      onPiece: (byteCount) => direction.spend("bytes", byteCount, request.signal),
    });
  };
}

/**
 * Whether the request counts as a write. Most POST requests, such as `_revs_diff` and `_bulk_get`,
 * count as reads.
 */
function isWrite({ method, url }: FetchRequest): boolean {
  if (method === "PUT" || method === "DELETE") return true;
  return method === "POST" && /\/_(bulk_docs|ensure_full_commit)(\?|$)/.test(url);
}

function bodyLength({ body }: FetchRequest): number {
  return body?.length ?? 0;
}
