/** The nodes of the cluster, and the rates counted by the node that serves the page. */
import type { NodeRow, RateMinute } from "../../contract/index.ts";
import { get, request, segmentOf } from "./request.ts";

export async function readNodes(signal: AbortSignal): Promise<readonly NodeRow[]> {
  return (await get<{ nodes: NodeRow[] }>("_tandem/nodes", signal)).nodes;
}

/** Returns the rates for each minute of the last hour, oldest first. */
export async function readRates(signal: AbortSignal): Promise<readonly RateMinute[]> {
  return (await get<{ minutes: RateMinute[] }>("_tandem/rates", signal)).minutes;
}

/** Waiting time of the due job that has waited longest for a slot, in seconds. */
export async function readLongestWait(signal: AbortSignal): Promise<number> {
  const { groups } = await get<{ groups: { longest_wait_sec: number }[] }>(
    "_tandem/groups?limit=1",
    signal,
  );
  return groups[0]?.longest_wait_sec ?? 0;
}

/** Drains a process, or allows it to accept jobs again. */
export async function setDraining(id: string, isDraining: boolean): Promise<void> {
  const path = `_tandem/nodes/${segmentOf(id)}`;
  await request("POST", `${path}/${isDraining ? "_drain" : "_undrain"}`);
}
