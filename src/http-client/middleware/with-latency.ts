/**
 * Measures the time until servers start to respond. Change feeds are excluded, because a server
 * responds to them only when there is a change.
 */
import type { Clock } from "../../base/index.ts";
import type { Fetch } from "../fetch.ts";

/** Length of a measuring period. Only the current and the previous period are kept. */
const PERIOD_MS = 60_000;
/** Maximum number of hosts per period; others are not measured. */
const HOSTS_MAX = 10_000;

export interface Latency {
  readonly requestCount: number;
  readonly meanMs: number;
}

interface Sum {
  count: number;
  totalMs: number;
}

type Sums = Map<string, Sum>;

/** Measurements by host. The host includes its port, unless it is the default port. */
export class Latencies {
  readonly #clock: Clock;
  #beganMs: number;
  #current: Sums = new Map();
  #former: Sums = new Map();

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#beganMs = clock.monotonicMs();
  }

  add(host: string, durationMs: number): void {
    this.#turn();
    const sum = this.#current.get(host);
    if (sum !== undefined) {
      sum.count++;
      sum.totalMs += durationMs;
    } else if (this.#current.size < HOSTS_MAX) {
      this.#current.set(host, { count: 1, totalMs: durationMs });
    }
  }

  /** Measurements of the last one to two minutes, by host. */
  list(): ReadonlyMap<string, Latency> {
    this.#turn();
    const hosts = new Set([...this.#former.keys(), ...this.#current.keys()]);
    const found = new Map<string, Latency>();
    for (const host of hosts) {
      const sums = [this.#former.get(host), this.#current.get(host)];
      const requestCount = sums.reduce((count, sum) => count + (sum?.count ?? 0), 0);
      const totalMs = sums.reduce((total, sum) => total + (sum?.totalMs ?? 0), 0);
      found.set(host, { requestCount, meanMs: totalMs / requestCount });
    }
    return found;
  }

  #turn(): void {
    const ageMs = this.#clock.monotonicMs() - this.#beganMs;
    if (ageMs < PERIOD_MS) return;
    this.#former = ageMs < 2 * PERIOD_MS ? this.#current : new Map();
    this.#current = new Map();
    this.#beganMs += Math.floor(ageMs / PERIOD_MS) * PERIOD_MS;
  }
}

export function withLatency(clock: Clock, fetch: Fetch, latencies: Latencies): Fetch {
  return async (request) => {
    const { host, pathname } = new URL(request.url);
    if (/\/_changes$/.test(pathname)) return fetch(request);
    const beganMs = clock.monotonicMs();
    const response = await fetch(request);
    latencies.add(host, clock.monotonicMs() - beganMs);
    return response;
  };
}
