/** Latencies and rate limits of the servers to which this process sends requests. */
import type { Latencies, RateLimits } from "../../http-client/index.ts";
import { parseUrl } from "../request/endpoint-url.ts";

/** Maximum number of servers listed. */
const HOSTS_MAX = 100;

/** Measurements of a process's requests to one server within the last one to two minutes. */
export interface HostMeasure {
  /** Host of the server, with any non-default port. */
  readonly host: string;
  readonly requestCount: number;
  /** Time from a request to the start of its response; undefined without requests. */
  readonly latencyMs: number | undefined;
  /**
   * Delay added to each request because the server has responded with 429; 0 if no delay is needed.
   */
  readonly limiterMs: number;
}

/**
 * Returns the measurements for the servers with rate limits, and for the servers with the most
 * requests.
 */
export function hostMeasures(latencies: Latencies, rateLimits: RateLimits): readonly HostMeasure[] {
  const limiters = new Map<string, number>();
  for (const { endpointUrl, intervalMs } of rateLimits.list()) {
    const host = parseUrl(endpointUrl)?.host ?? endpointUrl;
    limiters.set(host, Math.max(intervalMs, limiters.get(host) ?? 0));
  }
  const known = latencies.list();
  return [...new Set([...limiters.keys(), ...known.keys()])]
    .map((host): HostMeasure => {
      const latency = known.get(host);
      return {
        host,
        requestCount: latency?.requestCount ?? 0,
        latencyMs: latency?.meanMs,
        limiterMs: limiters.get(host) ?? 0,
      };
    })
    .toSorted(
      (left, right) => right.limiterMs - left.limiterMs || right.requestCount - left.requestCount,
    )
    .slice(0, HOSTS_MAX);
}
