/** The servers that jobs name, and the groups that share the slots. */
import { get, request, segmentOf, withQuery } from "./request.ts";
import type { EndpointRow, GroupRow } from "./types.ts";

/** Rows of a page of either. */
export const PAGE_ROWS = 100;

export interface Page<Row> {
  /** Of all. */
  readonly total: number;
  readonly rows: readonly Row[];
}

/** The one where most jobs fail first. */
export async function readEndpoints(skip: number, signal: AbortSignal): Promise<Page<EndpointRow>> {
  const { total_rows: total, endpoints: rows } = await get<{
    total_rows: number;
    endpoints: EndpointRow[];
  }>(pagePath("_tandem/endpoints", skip), signal);
  return { total, rows };
}

/** The one that waits longest first. */
export async function readGroups(skip: number, signal: AbortSignal): Promise<Page<GroupRow>> {
  const { total_rows: total, groups: rows } = await get<{
    total_rows: number;
    groups: GroupRow[];
  }>(pagePath("_tandem/groups", skip), signal);
  return { total, rows };
}

/** A setting of the cluster, kept by the node that is asked. */
export async function setShares(group: string, shares: number): Promise<void> {
  const name = group.replace(/^user:/, "");
  const path = `_node/_local/_config/replicator.shares/${segmentOf(name)}`;
  await request("PUT", path, { body: String(shares) });
}

function pagePath(path: string, skip: number): string {
  return withQuery(path, { limit: String(PAGE_ROWS), skip: String(skip) });
}
