/** The servers that jobs name, and the groups that share the slots. */
import { get } from "./request.ts";
import type { EndpointRow, GroupRow } from "./types.ts";

export interface Servers {
  /** Of all; `endpoints` has the first 100. */
  readonly endpointTotal: number;
  /** The one where most jobs fail first. */
  readonly endpoints: readonly EndpointRow[];
  /** Of all; `groups` has the first 100. */
  readonly groupTotal: number;
  /** The one that waits longest first. */
  readonly groups: readonly GroupRow[];
}

export async function readServers(signal: AbortSignal): Promise<Servers> {
  const [{ total_rows: endpointTotal, endpoints }, { total_rows: groupTotal, groups }] =
    await Promise.all([
      get<{ total_rows: number; endpoints: EndpointRow[] }>("_tandem/endpoints", signal),
      get<{ total_rows: number; groups: GroupRow[] }>("_tandem/groups", signal),
    ]);
  return { endpointTotal, endpoints, groupTotal, groups };
}
