/** Servers used by jobs, and groups that share the slots. */
import type { BudgetRow, EndpointRow, GroupRow } from "../../contract/index.ts";
import { skipWithin } from "./pages.ts";
import { client, request, segmentOf } from "./request.ts";

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
  return readPage(skip, async (place) => {
    const { endpoints: rows, total_rows: total } = await client.endpoints
      .list(place, { signal })
      .page();
    return { rows, total };
  });
}

/** Reads groups, longest wait first. */
export function readGroups(skip: number, signal: AbortSignal): Promise<Page<GroupRow>> {
  return readPage(skip, async (place) => {
    const { groups: rows, total_rows: total } = await client.groups.list(place, { signal }).page();
    return { rows, total };
  });
}

/** Reads the page after `skip` rows, or the last page if the list has fewer rows. */
async function readPage<Row>(
  skip: number,
  read: (place: {
    readonly skip: number;
    readonly limit: number;
  }) => Promise<Omit<Page<Row>, "skip">>,
): Promise<Page<Row>> {
  const page = await read({ skip, limit: PAGE_ROWS });
  const within = skipWithin(skip, PAGE_ROWS, page.total);
  return within === skip ? { skip, ...page } : readPage(within, read);
}

/** Budgets of servers that no job uses. */
export async function readOtherBudgets(signal: AbortSignal): Promise<readonly BudgetRow[]> {
  const { budgets } = await client.budgets.list({}, { signal }).page();
  const shown = new Set<string>();
  if (budgets.length === 0) return [];
  for await (const endpoint of client.endpoints.list({ limit: 1_000 }, { signal })) {
    for (const { name } of endpoint.budgets) shown.add(name);
  }
  return budgets.filter(({ name }) => !shown.has(name));
}

/** Sets the shares of a group. This node's setting applies to all nodes. */
export async function setShares(group: string, shares: number): Promise<void> {
  const name = group.replace(/^user:/, "");
  const path = `_node/_local/_config/replicator.shares/${segmentOf(name)}`;
  await request("PUT", path, { body: String(shares) });
}
