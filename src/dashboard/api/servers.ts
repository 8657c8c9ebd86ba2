/** Servers used by jobs, and groups that share the slots. */
import type { EndpointRow, GroupRow } from "../../contract/index.ts";
import type { BudgetRow } from "./budget.ts";
import { skipWithin } from "./pages.ts";
import { get, request, segmentOf, withQuery } from "./request.ts";

/** Page size of both lists. */
export const PAGE_ROWS = 100;

export interface Page<Row> {
  /** Number of rows before the page. */
  readonly skip: number;
  /** Total number of rows. */
  readonly total: number;
  readonly rows: readonly Row[];
}

/** Reads servers, most failing jobs first. */
export function readEndpoints(skip: number, signal: AbortSignal): Promise<Page<EndpointRow>> {
  return readPage("endpoints", skip, signal);
}

/** Reads groups, longest wait first. */
export function readGroups(skip: number, signal: AbortSignal): Promise<Page<GroupRow>> {
  return readPage("groups", skip, signal);
}

/** The page after `skip` rows, or the last one if there are fewer. */
async function readPage<Row>(
  list: "endpoints" | "groups",
  skip: number,
  signal: AbortSignal,
): Promise<Page<Row>> {
  const { total_rows: total, ...answer } = await get<
    { readonly total_rows: number } & Readonly<Record<typeof list, readonly Row[]>>
  >(pagePath(list, PAGE_ROWS, skip), signal);
  const within = skipWithin(skip, PAGE_ROWS, total);
  return within === skip ? { skip, total, rows: answer[list] } : readPage(list, within, signal);
}

/** Budgets of servers that no job uses. */
export async function readOtherBudgets(signal: AbortSignal): Promise<readonly BudgetRow[]> {
  const { budgets } = await get<{ budgets: BudgetRow[] }>("_tandem/budgets", signal);
  if (budgets.length === 0) return [];
  const { endpoints } = await get<{ endpoints: EndpointRow[] }>(
    pagePath("endpoints", Number.MAX_SAFE_INTEGER, 0),
    signal,
  );
  const shown = new Set(endpoints.flatMap((endpoint) => endpoint.budgets.map(({ name }) => name)));
  return budgets.filter(({ name }) => !shown.has(name));
}

/** Changes a setting of the cluster through this node. */
export async function setShares(group: string, shares: number): Promise<void> {
  const name = group.replace(/^user:/, "");
  const path = `_node/_local/_config/replicator.shares/${segmentOf(name)}`;
  await request("PUT", path, { body: String(shares) });
}

function pagePath(list: string, limit: number, skip: number): string {
  return withQuery(`_tandem/${list}`, { limit: String(limit), skip: String(skip) });
}
