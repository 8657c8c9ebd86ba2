/**
 * Budget for the bytes of all request bodies that a node holds at a time, after decompression. The
 * bytes of a body are reserved as they arrive, before they are stored. When the budget is
 * exhausted, one request is allowed to exceed it, so that partially received bodies do not wait for
 * each other indefinitely. All other requests wait for memory to be released, and are rejected with
 * an OverloadedError (503 with `Retry-After`) if that takes too long.
 */
import { type Clock, waitAtMost } from "../../base/index.ts";
import { OverloadedError } from "./admission.ts";

/**
 * Length of the beginning of each body that is not counted. The limit on concurrent requests bounds
 * the total of these bytes.
 */
const FREE_BYTES = 65_536;
/** Size of reservations, large enough that few chunks need a new one. */
const STEP_BYTES = 1_048_576;
/**
 * Maximum time for which a body waits for memory, because slow clients can hold memory for long.
 */
const WAIT_MS_MAX = 10_000;

export interface BodyBudgetLimits {
  /** `[tandem] max_body_memory`, in bytes; read on each use. */
  readonly bodyMemoryBytesMax: number;
}

/** Memory reserved by one request. */
export interface BodyAllowance {
  /** Extends the reservation to a total of `byteCount` bytes. Throws an OverloadedError. */
  hold(byteCount: number, signal: AbortSignal): Promise<void>;
  release(): void;
}

export class BodyBudget {
  readonly #clock: Clock;
  readonly #limits: BodyBudgetLimits;
  readonly #waiting = new Set<() => void>();
  #heldBytes = 0;
  /** The one request that is allowed to exceed the budget until it releases its bytes. */
  #exceeding: BodyAllowance | undefined;

  constructor(clock: Clock, limits: BodyBudgetLimits) {
    this.#clock = clock;
    this.#limits = limits;
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  open(): BodyAllowance {
    let ownBytes = 0;
    const allowance: BodyAllowance = {
      hold: async (byteCount, signal) => {
        if (byteCount <= FREE_BYTES + ownBytes) return;
        const moreBytes = Math.ceil((byteCount - FREE_BYTES - ownBytes) / STEP_BYTES) * STEP_BYTES;
        if (!this.#hasRoom(allowance, moreBytes)) {
          await this.#untilRoom(allowance, moreBytes, signal);
        }
        this.#heldBytes += moreBytes;
        ownBytes += moreBytes;
      },
      release: () => {
        if (ownBytes === 0 && this.#exceeding !== allowance) return;
        this.#heldBytes -= ownBytes;
        ownBytes = 0;
        if (this.#exceeding === allowance) this.#exceeding = undefined;
        for (const wake of this.#waiting) wake();
      },
    };
    return allowance;
  }

  #hasRoom(allowance: BodyAllowance, moreBytes: number): boolean {
    if (this.#heldBytes + moreBytes <= this.#limits.bodyMemoryBytesMax) return true;
    this.#exceeding ??= allowance;
    return this.#exceeding === allowance;
  }

  #nextRelease(over: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.add(resolve);
      over.addEventListener("abort", () => this.#waiting.delete(resolve), { once: true });
    });
  }

  async #untilRoom(
    allowance: BodyAllowance,
    moreBytes: number,
    signal: AbortSignal,
  ): Promise<void> {
    const untilMs = this.#clock.monotonicMs() + WAIT_MS_MAX;
    while (!this.#hasRoom(allowance, moreBytes)) {
      const leftMs = untilMs - this.#clock.monotonicMs();
      if (leftMs <= 0) throw new OverloadedError();
      await waitAtMost(this.#clock, leftMs, signal, (over) => this.#nextRelease(over));
      signal.throwIfAborted();
    }
  }
}
