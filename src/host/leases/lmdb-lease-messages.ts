/**
 * Memory shared by a lease's thread and its worker. It contains the time at which the last
 * successful renewal began, on the process's clock. The worker can read this time even in a long
 * event-loop turn, in which it could not receive a message.
 */
import type { LeaseEnding } from "../../jobs/index.ts";

export interface LeaseThreadData {
  readonly directory: string;
  /** Prefix of the queue's subspace. */
  readonly prefix: Uint8Array;
  /** Memory of a `LeaseTime`, eight bytes. */
  readonly shared: SharedArrayBuffer;
}

/** Messages to the thread: `start` begins the renewals, `stop` ends them. */
export type LeaseMessage =
  | { readonly kind: "start"; readonly worker: string; readonly leaseMs: number }
  | { readonly kind: "stop" };

export type LeaseAnswer =
  | { readonly kind: "ready" }
  | { readonly kind: "ended"; readonly ending: LeaseEnding };

export class LeaseTime {
  readonly #nanoseconds: BigInt64Array;

  constructor(shared: SharedArrayBuffer = new SharedArrayBuffer(8)) {
    this.#nanoseconds = new BigInt64Array(shared);
  }

  get shared(): SharedArrayBuffer {
    return this.#nanoseconds.buffer as SharedArrayBuffer;
  }

  get ageMs(): number {
    const renewedAt = Atomics.load(this.#nanoseconds, 0);
    return Number(process.hrtime.bigint() - renewedAt) / 1e6;
  }

  setAge(ageMs: number): void {
    const renewedAt = process.hrtime.bigint() - BigInt(Math.ceil(ageMs * 1e6));
    Atomics.store(this.#nanoseconds, 0, renewedAt);
  }
}
