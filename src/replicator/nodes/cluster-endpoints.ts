/**
 * Lists the servers that jobs copy from and to. For each server, the list contains the numbers of
 * jobs and failures, and the state of the server as known to the nodes. The data comes from
 * counters and reports, so the cost does not depend on the number of jobs.
 */

import { largest, type Runtime, sum } from "../../base/index.ts";
import type { FailureClass } from "../../contract/index.ts";
import type { Jobs } from "../../jobs/index.ts";
import type { KeyValueStore, ReadTransaction, Subspace } from "../../kv/index.ts";
import type { HostMeasure } from "../endpoints/host-measures.ts";
import type { IndexView } from "../job-lists/index-view.ts";
import type { JobIndex } from "../job-lists/job-index.ts";
import { StatusCounts } from "../job-lists/status-counts.ts";
import { type KnownOutage, knownOutages } from "../job-watching/outages.ts";
import { parseCauseKey } from "../jobs/failure-cause.ts";
import { type ReplicatorKeys, replicatorKeys } from "../replicator-keys.ts";
import { parseUrl } from "../request/endpoint-url.ts";
import { NodeStore } from "./node-store.ts";

/** Maximum age of a report that is included. */
const REPORT_MS_MAX = 30_000;

export interface ClusterEndpointsParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
  readonly index: JobIndex;
  readonly subspace: Subspace;
}

export interface ClusterEndpoint {
  /** Host of the server, with any non-default port. */
  readonly host: string;
  readonly sourceCount: number;
  readonly targetCount: number;
  /** Number of jobs whose last failure was at this server, by class. */
  readonly failing: ReadonlyMap<FailureClass, number>;
  /** The outage of the server, if it is known to be unreachable. */
  readonly outage: KnownOutage | undefined;
  /** Number of requests of all nodes in the last one to two minutes. */
  readonly requestCount: number;
  /** Mean time to the response headers; undefined without requests. */
  readonly latencyMs: number | undefined;
  /**
   * Longest delay that any node adds to each request because of responses with status 429; 0 if no
   * node adds a delay.
   */
  readonly limiterMs: number;
}

export interface ClusterEndpointsPage {
  readonly endpoints: readonly ClusterEndpoint[];
  readonly total: number;
}

export class ClusterEndpoints {
  readonly #parts: ClusterEndpointsParts;
  readonly #keys: ReplicatorKeys;
  readonly #counts: StatusCounts;
  readonly #store: NodeStore;

  constructor(parts: ClusterEndpointsParts) {
    this.#parts = parts;
    this.#keys = replicatorKeys(parts.subspace);
    this.#counts = new StatusCounts(parts.jobs, this.#keys);
    this.#store = new NodeStore(parts.subspace);
  }

  /** Returns a page of servers, sorted by failing jobs, then by jobs, then by name. */
  async page({ skip, limit }: { skip: number; limit: number }): Promise<ClusterEndpointsPage> {
    const { kv, index } = this.#parts;
    const all = await index.read(kv, (view) => this.#all(view));
    const ordered = all
      .map((endpoint) => ({ endpoint, failingCount: sum(endpoint.failing.values()) }))
      .toSorted(
        (left, right) =>
          right.failingCount - left.failingCount ||
          jobCount(right.endpoint) - jobCount(left.endpoint) ||
          (left.endpoint.host < right.endpoint.host ? -1 : 1),
      );
    const page = ordered.slice(skip, skip + limit);
    return { endpoints: page.map(({ endpoint }) => endpoint), total: all.length };
  }

  async #all(view: IndexView): Promise<readonly ClusterEndpoint[]> {
    const [sources, targets, failing, outages, measures] = [
      await this.#counts.hosts(view, "source"),
      await this.#counts.hosts(view, "target"),
      await this.#failing(view),
      await this.#outages(view.tx),
      await this.#measures(view.tx),
    ];
    const hosts = new Set(
      [sources, targets, failing, outages].flatMap((known) => [...known.keys()]),
    );
    return [...hosts].map((host) => ({
      host,
      sourceCount: sources.get(host) ?? 0,
      targetCount: targets.get(host) ?? 0,
      failing: failing.get(host) ?? new Map(),
      outage: outages.get(host),
      ...summed(measures.get(host) ?? []),
    }));
  }

  async #failing(view: IndexView): Promise<ReadonlyMap<string, ReadonlyMap<FailureClass, number>>> {
    const found = new Map<string, Map<FailureClass, number>>();
    for (const [text, count] of await this.#counts.causes(view, undefined)) {
      const cause = parseCauseKey(text);
      if (cause?.host === undefined) continue;
      const classes = found.get(cause.host) ?? new Map<FailureClass, number>();
      classes.set(cause.class, (classes.get(cause.class) ?? 0) + count);
      found.set(cause.host, classes);
    }
    return found;
  }

  async #outages(tx: ReadTransaction): Promise<ReadonlyMap<string, KnownOutage>> {
    const known = await knownOutages(tx, this.#keys);
    return new Map(known.map((outage) => [parseUrl(outage.origin)?.host ?? outage.origin, outage]));
  }

  async #measures(tx: ReadTransaction): Promise<ReadonlyMap<string, readonly HostMeasure[]>> {
    const sinceMs = this.#parts.runtime.clock.nowMs() - REPORT_MS_MAX;
    const found = new Map<string, HostMeasure[]>();
    for (const { report } of await this.#store.list(tx)) {
      if (report.reportedMs < sinceMs) continue;
      for (const measure of report.hosts) {
        const others = found.get(measure.host);
        if (others === undefined) found.set(measure.host, [measure]);
        else others.push(measure);
      }
    }
    return found;
  }
}

function jobCount({ sourceCount, targetCount }: ClusterEndpoint): number {
  return sourceCount + targetCount;
}

function summed(measures: readonly HostMeasure[]) {
  const requestCount = sum(measures.map((measure) => measure.requestCount));
  const totalMs = sum(measures.map(({ latencyMs = 0, requestCount: count }) => latencyMs * count));
  return {
    requestCount,
    latencyMs: requestCount === 0 ? undefined : totalMs / requestCount,
    limiterMs: largest(
      measures.map(({ limiterMs }) => limiterMs),
      0,
    ),
  };
}
