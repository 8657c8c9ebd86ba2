/**
 * How fast watchers of this node compare: so many requests a second for each server, however many watchers ask it. Without that,
 * thousands of accounts that may not follow a server's feed would each ask it once a second.
 */
import type { Clock } from "../../base/index.ts";

const REQUESTS_PER_SEC = 50;

export class SweepPace {
  readonly #clock: Clock;
  /** By server: when the next request may be sent. Only of servers that were asked lately. */
  readonly #nextMs = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Settles when so many requests may be sent to the server. Rejects when the signal aborts. */
  async turn(server: string, requestCount: number, signal: AbortSignal): Promise<void> {
    const nowMs = this.#clock.monotonicMs();
    for (const [name, nextMs] of this.#nextMs) if (nextMs <= nowMs) this.#nextMs.delete(name);
    const turnMs = this.#nextMs.get(server) ?? nowMs;
    this.#nextMs.set(server, turnMs + (requestCount * 1000) / REQUESTS_PER_SEC);
    if (turnMs > nowMs) await this.#clock.sleep(turnMs - nowMs, signal);
  }
}
