/**
 * Topology: the databases between which jobs copy. All jobs between two databases form one edge.
 */
import { largest } from "../../base/index.ts";
import { percentDecode } from "../../protocol/index.ts";
import { cyclesOf } from "../jobs/cycles.ts";
import type { ReplicationState } from "../jobs/job-data.ts";
import { jobName } from "../jobs/job-name.ts";
import { parseUrl } from "../request/endpoint-url.ts";
import { directionsOf } from "../request/pair.ts";
import type { EndpointAddress, Replication } from "../request/replication.ts";
import { lagSec } from "./backlog.ts";
import type { JobEntry } from "./job-views.ts";

/** Maximum number of edges. Jobs that would need additional edges are omitted. */
export const TOPOLOGY_EDGES_MAX = 2_000;
/** Maximum number of jobs read, which bounds the time of a request. */
export const TOPOLOGY_JOBS_MAX = 10_000;
/** Maximum number of job names per edge. */
const NAMES_MAX = 3;

export interface TopologyDatabase {
  /** Host and path of a database on another server; name of a local database. */
  readonly name: string;
  /** Host with any non-default port; undefined for a local database. */
  readonly host: string | undefined;
}

export interface TopologyEdge {
  readonly source: string;
  readonly target: string;
  /** The worst state of the jobs. */
  readonly state: ReplicationState;
  /** The longest known lag of the jobs; undefined if no lag is known. */
  readonly lagSec: number | undefined;
  readonly failing: number;
  readonly jobs: number;
  /** Names of the first jobs. */
  readonly names: readonly string[];
}

export interface Topology {
  /** Number of jobs included. */
  readonly jobs: number;
  readonly databases: readonly TopologyDatabase[];
  readonly edges: readonly TopologyEdge[];
  /**
   * Groups of databases that copy to each other, directly or through other databases of the group.
   */
  readonly loops: readonly (readonly string[])[];
  /** Whether jobs are omitted. */
  readonly truncated: boolean;
}

/** States from best to worst. */
const STATES: readonly ReplicationState[] = [
  "completed",
  "running",
  "pending",
  "crashing",
  "failed",
];

type Facts = Pick<JobEntry, "jobId" | "data" | "state" | "backlog">;

/** Builds the topology of jobs. `serverUrl` is the URL of this server. */
export class TopologyBuilder {
  readonly #serverUrl: URL | undefined;
  readonly #nowMs: number;
  readonly #databases = new Map<string, TopologyDatabase>();
  readonly #edges = new Map<string, TopologyEdge>();
  #jobCount = 0;
  #isTruncated = false;

  constructor(serverUrl: string, nowMs: number) {
    this.#serverUrl = parseUrl(serverUrl);
    this.#nowMs = nowMs;
  }

  /** Adds a job. Jobs with malformed documents copy nothing, and are skipped. */
  add(entry: Facts): void {
    const { replication } = entry.data;
    if (replication === undefined) return;
    const isIncluded = directionsOf(replication).map((one) => this.#addEdge(one, entry));
    if (isIncluded.includes(true)) this.#jobCount++;
  }

  /** Adds a direction of a job. Returns false if the maximum number of edges is reached. */
  #addEdge({ source, target }: Replication, entry: Facts): boolean {
    const [from, to] = [this.#place(source), this.#place(target)];
    const key = JSON.stringify([from.name, to.name]);
    const before = this.#edges.get(key);
    if (before === undefined && this.#edges.size >= TOPOLOGY_EDGES_MAX) {
      this.truncate();
      return false;
    }
    for (const place of [from, to]) this.#databases.set(place.name, place);
    this.#edges.set(key, this.#joined(before, from.name, to.name, entry));
    return true;
  }

  /** Records that not all jobs are included. */
  truncate(): void {
    this.#isTruncated = true;
  }

  build(): Topology {
    const edges = [...this.#edges.values()].toSorted(
      (left, right) => compare(left.source, right.source) || compare(left.target, right.target),
    );
    const targets = new Map<string, string[]>();
    for (const { source, target } of edges) {
      const known = targets.get(source);
      if (known === undefined) targets.set(source, [target]);
      else known.push(target);
    }
    const loops = cyclesOf(targets.keys(), (name) => targets.get(name) ?? []);
    return {
      jobs: this.#jobCount,
      databases: [...this.#databases.values()].toSorted((a, b) => compare(a.name, b.name)),
      edges,
      loops: loops
        .map((loop) => loop.toSorted(compare))
        .toSorted((left, right) => compare(left[0] ?? "", right[0] ?? "")),
      truncated: this.#isTruncated,
    };
  }

  #joined(
    before: TopologyEdge | undefined,
    source: string,
    target: string,
    { jobId, data, state, backlog }: Facts,
  ): TopologyEdge {
    const lag = backlog && lagSec(backlog, this.#nowMs);
    const known = [before?.lagSec, lag].filter((value) => value !== undefined);
    const names = before?.names ?? [];
    return {
      source,
      target,
      state: before === undefined ? state : worse(before.state, state),
      lagSec: known.length === 0 ? undefined : largest(known),
      failing: (before?.failing ?? 0) + (data.failing === undefined ? 0 : 1),
      jobs: (before?.jobs ?? 0) + 1,
      names: names.length < NAMES_MAX ? [...names, jobName(jobId, data)] : names,
    };
  }

  /** Returns the database of an address. A URL of this server yields a local database. */
  #place(address: EndpointAddress): TopologyDatabase {
    if (address.kind === "local") return { name: address.database, host: undefined };
    const url = parseUrl(address.url);
    if (url === undefined) return { name: "?", host: "?" };
    const path = url.pathname.replace(/\/$/, "");
    const own = this.#serverUrl;
    if (own !== undefined && own.host === url.host && path.startsWith(own.pathname)) {
      const name = path.slice(own.pathname.length);
      return { name: percentDecode(name) ?? name, host: undefined };
    }
    return { name: url.host + (percentDecode(path) ?? path), host: url.host };
  }
}

function worse(left: ReplicationState, right: ReplicationState): ReplicationState {
  return STATES.indexOf(left) > STATES.indexOf(right) ? left : right;
}

function compare(left: string, right: string): number {
  return left < right ? -1 : left > right ? 1 : 0;
}
