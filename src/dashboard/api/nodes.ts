/** The nodes of the cluster, and what the node that is asked counts. */
import { isUnknownResource } from "./failing.ts";
import { get } from "./request.ts";
import type { NodeRow } from "./types.ts";

/** Until the server says that it does not. */
let knowsNodes = true;

/** What `_tandem/nodes` and `_tandem/workers` have in common. */
interface NodeAnswer {
  readonly node?: string;
  readonly name?: string;
  readonly pid?: string | null;
  readonly jobs?: number | null;
  readonly since?: string | null;
  readonly last_sign_of_life?: string | null;
}

export async function readNodes(signal: AbortSignal): Promise<readonly NodeRow[]> {
  const rows = await nodeAnswers(signal);
  return rows.map(({ node, name, pid, jobs, since, last_sign_of_life: lastSign }) => ({
    node: node ?? name ?? "?",
    pid: pid ?? null,
    jobs: typeof jobs === "number" ? jobs : null,
    since: since ?? null,
    lastSign: lastSign ?? null,
  }));
}

async function nodeAnswers(signal: AbortSignal): Promise<readonly NodeAnswer[]> {
  if (!knowsNodes) return workers(signal);
  try {
    return (await get<{ nodes: NodeAnswer[] }>("_tandem/nodes", signal)).nodes;
  } catch (error) {
    if (!isUnknownResource(error)) throw error;
    knowsNodes = false;
    return workers(signal);
  }
}

async function workers(signal: AbortSignal): Promise<readonly NodeAnswer[]> {
  return (await get<{ workers: NodeAnswer[] }>("_tandem/workers", signal)).workers;
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
