/**
 * Renewing a worker's lease.
 *
 * The worker counts by its own clock, from the beginning of the last successful renewal. The others count from the time
 * when they saw that renewal, which is later. The worker gives up after a part of the lease, so it has stopped before
 * another may expel it. No two clocks are compared.
 */
import { errorCode, type Runtime } from "../base/index.ts";
import { isRetryable, type KeyValueStore } from "../kv/index.ts";
import type { WorkerId } from "./worker.ts";
import type { Workers } from "./workers.ts";

/** Renewals in one lease: some may come late, or fail, before the worker has to give up. */
export const RENEWALS_PER_LEASE = 5;

/** The part of its lease that a worker uses; the rest is for stopping what it runs, and for clocks of unequal speed. */
const USED_RATIO = 0.8;

export interface LeaseTerm {
  readonly worker: WorkerId;
  readonly leaseMs: number;
  /** How long ago the registration began, which is the first renewal. */
  readonly ageMs: number;
}

/** `expelled`: others struck the worker off. `lapsed`: no renewal succeeded in time. */
export type LeaseEnding = "expelled" | "lapsed" | "stopped";

/** Renews leases from where the worker's event loop cannot delay it, if the store allows that. */
export interface LeaseRenewer {
  /**
   * Gets ready to renew a lease at once. That can take longer than a short lease lasts, so it comes before the registration: a worker
   * that began to get ready afterwards would lose its lease, register again, and so on for ever.
   */
  prepare(): Promise<ReadyRenewer>;
}

/** For one lease. */
export interface ReadyRenewer {
  start(term: LeaseTerm): Lease;
  /** Frees what it holds and ends the lease, if one was started. Safe to call twice. */
  stop(): Promise<void>;
}

export interface Lease {
  /** For how long the worker may go on, by a clock that never goes back. Not above zero: it gives up its jobs. */
  remainingMs(): number;
  /** Settles when the lease is not renewed any more. */
  readonly ended: Promise<LeaseEnding>;
}

/** How long a worker goes on after the beginning of its last renewal. */
export function usedLeaseMs(leaseMs: number): number {
  return leaseMs * USED_RATIO;
}

/** What is left of a lease whose last renewal began `ageMs` ago. */
export function remainingMs(leaseMs: number, ageMs: number): number {
  return usedLeaseMs(leaseMs) - ageMs;
}

export interface KeepLeaseParts {
  readonly clock: Runtime["clock"];
  readonly kv: KeyValueStore;
  readonly workers: Workers;
}

/** Renews until aborted, or until the lease is lost. `onRenewed` is told when the renewal that succeeded began. */
export async function keepLease(
  { clock, kv, workers }: KeepLeaseParts,
  { worker, leaseMs, ageMs }: LeaseTerm,
  onRenewed: (startedAtMs: number) => void,
  signal: AbortSignal,
): Promise<LeaseEnding> {
  let renewedAtMs = clock.monotonicMs() - ageMs;
  while (!signal.aborted) {
    const startedAtMs = clock.monotonicMs();
    const leftMs = remainingMs(leaseMs, startedAtMs - renewedAtMs);
    if (leftMs <= 0) return "lapsed";
    try {
      const renewed = await kv.transact((tx) => workers.renew(tx, worker), {
        signal,
        timeoutMs: leftMs,
        whenUnknown: "retry",
      });
      if (!renewed) return "expelled";
      renewedAtMs = startedAtMs;
      onRenewed(startedAtMs);
    } catch (error) {
      if (signal.aborted) return "stopped";
      // A store that refuses may do better before the lease is over.
      if (!isRetryable(error) && errorCode(error) !== "KV_UNAVAILABLE") return "lapsed";
    }
    await clock.sleep(leaseMs / RENEWALS_PER_LEASE, signal).catch(() => {});
  }
  return "stopped";
}

/** Renews in the worker's own event loop: for stores that live in it, and so are as busy as it is. */
export class InLoopLeaseRenewer implements LeaseRenewer {
  readonly #parts: KeepLeaseParts;

  constructor(parts: KeepLeaseParts) {
    this.#parts = parts;
  }

  async prepare(): Promise<ReadyRenewer> {
    const { clock } = this.#parts;
    const stopping = new AbortController();
    let ended: Promise<LeaseEnding> | undefined;
    return {
      start: (term) => {
        let renewedAtMs = clock.monotonicMs() - term.ageMs;
        const onRenewed = (startedAtMs: number): void => {
          renewedAtMs = startedAtMs;
        };
        ended = keepLease(this.#parts, term, onRenewed, stopping.signal);
        return {
          remainingMs: () => remainingMs(term.leaseMs, clock.monotonicMs() - renewedAtMs),
          ended,
        };
      },
      stop: async () => {
        stopping.abort(new Error("The lease ends"));
        await ended;
      },
    };
  }
}
