/**
 * Renewal of a worker's lease.
 *
 * The worker measures from the start of its last successful renewal, on its own clock. Other
 * workers measure, on their own clocks, from when they observed this renewal, which is later than
 * its start. The worker abandons its jobs before the end of the lease, so it has stopped before
 * another worker can expel it. Clocks are never compared.
 */
import { errorCode, type Runtime } from "../base/index.ts";
import { isRetryable, type KeyValueStore } from "../kv/index.ts";
import type { WorkerId } from "./worker.ts";
import type { Workers } from "./workers.ts";

/**
 * Number of renewals per lease. More than one, so that a late or failed renewal does not end the
 * lease.
 */
export const RENEWALS_PER_LEASE = 5;

/**
 * Fraction of its lease for which a worker runs jobs without a renewal. The rest is for stopping
 * jobs, and for clock drift.
 */
const USED_RATIO = 0.8;

export interface LeaseTerm {
  readonly worker: WorkerId;
  readonly leaseMs: number;
  /** Time since the worker was registered. The registration counts as the first renewal. */
  readonly ageMs: number;
}

/** `expelled`: removed by other workers. `lapsed`: no renewal succeeded in time. */
export type LeaseEnding = "expelled" | "lapsed" | "stopped";

/** Renews leases independently of the worker's event loop, if the store permits it. */
export interface LeaseRenewer {
  /**
   * Prepares the renewer. Must be called before the registration, because it can take longer than a
   * short lease: the worker would otherwise lose its lease and register again, indefinitely.
   */
  prepare(): Promise<ReadyRenewer>;
}

/** A renewer prepared for one lease. */
export interface ReadyRenewer {
  start(term: LeaseTerm): Lease;
  /** Frees the resources of the renewer, and ends its lease if one was started. Idempotent. */
  stop(): Promise<void>;
}

export interface Lease {
  /**
   * Returns the time for which the worker can continue, on a monotonic clock. If it is not
   * positive, the worker must abandon its jobs.
   */
  remainingMs(): number;
  /** Settles when the lease is no longer renewed. */
  readonly ended: Promise<LeaseEnding>;
}

/** Returns the time for which a worker can continue after the start of its last renewal. */
export function usedLeaseMs(leaseMs: number): number {
  return leaseMs * USED_RATIO;
}

/** Returns the remaining time of a lease whose last renewal began `ageMs` ago. */
export function remainingMs(leaseMs: number, ageMs: number): number {
  return usedLeaseMs(leaseMs) - ageMs;
}

export interface KeepLeaseParts {
  readonly clock: Runtime["clock"];
  readonly kv: KeyValueStore;
  readonly workers: Workers;
}

/**
 * Renews a lease until aborted, or until the lease is lost. Calls `onRenewed` with the start time
 * of each successful renewal.
 */
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
      // After a retryable error or an outage, a later renewal might succeed.
      if (!isRetryable(error) && errorCode(error) !== "KV_UNAVAILABLE") return "lapsed";
    }
    await clock.sleep(leaseMs / RENEWALS_PER_LEASE, signal).catch(() => {});
  }
  return "stopped";
}

/** Renews leases within the worker's own event loop, for stores in the same process. */
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
        stopping.abort(new Error("The lease has ended"));
        await ended;
      },
    };
  }
}
