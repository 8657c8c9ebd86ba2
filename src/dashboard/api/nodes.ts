/** The nodes of the cluster, and what the node that is asked counts. */
import { get } from "./request.ts";
import type { NodeRow } from "./types.ts";

export async function readNodes(signal: AbortSignal): Promise<readonly NodeRow[]> {
  return (await get<{ nodes: NodeRow[] }>("_tandem/nodes", signal)).nodes;
}

/** Counters since the start of the process, and gauges. */
export interface NodeFigures {
  readonly startCount: number;
  readonly crashCount: number;
  /** How long a due job has waited for a slot, at most. */
  readonly longestWaitSec: number;
}

interface Metric {
  readonly value: number;
}

export async function readFigures(signal: AbortSignal): Promise<NodeFigures> {
  const answer = await get<{
    couch_replicator: { jobs: { starts: Metric; crashes: Metric } };
    tandem: { groups: { longest_wait_seconds: Metric } };
  }>("_node/_local/_stats", signal);
  return {
    startCount: answer.couch_replicator.jobs.starts.value,
    crashCount: answer.couch_replicator.jobs.crashes.value,
    longestWaitSec: answer.tandem.groups.longest_wait_seconds.value,
  };
}
