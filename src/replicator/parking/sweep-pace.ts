/**
 * Rate limit for the comparisons by watchers of this node: requests per second and server, for all
 * watchers together. Otherwise thousands of accounts without access to the feed would each poll
 * every second.
 */
import type { Clock } from "../../base/index.ts";

const REQUESTS_PER_SEC = 50;

export class SweepPace {
  readonly #clock: Clock;
  /** Time of the next request per server, for recently used servers. */
  readonly #nextMs = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Settles when the requests may be sent. Rejects when the signal aborts. */
  async turn(server: string, requestCount: number, signal: AbortSignal): Promise<void> {
    const nowMs = this.#clock.monotonicMs();
    for (const [name, nextMs] of this.#nextMs) if (nextMs <= nowMs) this.#nextMs.delete(name);
    const turnMs = this.#nextMs.get(server) ?? nowMs;
    this.#nextMs.set(server, turnMs + (requestCount * 1000) / REQUESTS_PER_SEC);
    if (turnMs > nowMs) await this.#clock.sleep(turnMs - nowMs, signal);
  }
}
