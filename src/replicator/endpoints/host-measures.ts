/** What a process measures of the servers that it asks. */
import type { Latencies, RateLimits } from "../../http-client/index.ts";
import { parseUrl } from "../request/endpoint-url.ts";

/** Servers in a list. */
const HOSTS_MAX = 100;

/** Requests of a process to one server, of the last one to two minutes. */
export interface HostMeasure {
  /** With a port that is not the scheme's. */
  readonly host: string;
  readonly requestCount: number;
  /** From a request until its answer began; undefined without a request. */
  readonly latencyMs: number | undefined;
  /** How long a request waits because the server answered 429 before; 0: not at all. */
  readonly limiterMs: number;
}

/** Those that are slowed down for, and those that are asked most. */
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
