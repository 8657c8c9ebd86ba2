/**
 * Limits the number of requests in progress. Additional requests wait in order of arrival; if too
 * many are waiting, a request is rejected with an OverloadedError (503 with `Retry-After`).
 *
 * A request occupies a concurrency slot until its response begins. The pieces of a long response
 * are produced later, as the client reads. A piece counts towards the limit while it is produced,
 * but does not wait for a slot. A slow client therefore occupies no slot, and a response that has
 * begun is always completed.
 */
import { OperationalError } from "../../base/index.ts";
import type { ApiRequest, ApiResponse } from "./exchange.ts";
import type { AdmissionRule } from "./route-facts.ts";

/** Limits of admission, read on each use. */
export interface AdmissionLimits {
  /** `[tandem] max_requests`: maximum number of requests in progress. */
  readonly requestsMax: number;
  /** `[tandem] max_waiting_requests`: maximum number of requests waiting for a slot. */
  readonly waitingRequestsMax: number;
}

/**
 * Thrown if the maximum number of requests is in progress and the queue of waiting requests is
 * full.
 */
export class OverloadedError extends OperationalError {
  override readonly name = "OverloadedError";

  constructor() {
    super("API_OVERLOADED", "Too many requests in progress");
  }
}

/** Whether the request counts towards the concurrency limit. */
export function needsPlace(rule: AdmissionRule, query: ApiRequest["query"]): boolean {
  const isLive = (query.get("feed") ?? "normal") !== "normal";
  return rule === "counted" || (rule === "free-if-live" && !isLive);
}

export class Admission {
  readonly #limits: AdmissionLimits;
  /** Callbacks of the waiting requests, in order of arrival; called when a slot is free. */
  readonly #waiting = new Set<() => void>();
  #workingCount = 0;

  constructor(limits: AdmissionLimits) {
    this.#limits = limits;
  }

  /**
   * Processes a request in a concurrency slot. The pieces of its response are produced later,
   * without waiting for a slot. Throws an OverloadedError if too many requests are waiting, and the
   * signal's reason if it aborts during the wait.
   */
  async answer(signal: AbortSignal, work: () => Promise<ApiResponse>): Promise<ApiResponse> {
    await this.#enter(signal);
    const response = await this.#inPlace(work);
    const { body } = response;
    if (body === undefined || typeof body === "string" || body instanceof Uint8Array) {
      return response;
    }
    return { ...response, body: this.#pieces(body) };
  }

  async #enter(signal: AbortSignal): Promise<void> {
    if (this.#hasRoom()) {
      this.#workingCount++;
      return;
    }
    if (this.#waiting.size >= this.#limits.waitingRequestsMax) throw new OverloadedError();
    await new Promise<void>((resolve, reject) => {
      const leaveLine = (): void => {
        this.#waiting.delete(enter);
        reject(signal.reason);
      };
      const enter = (): void => {
        signal.removeEventListener("abort", leaveLine);
        resolve();
      };
      if (signal.aborted) return reject(signal.reason);
      signal.addEventListener("abort", leaveLine, { once: true });
      this.#waiting.add(enter);
    });
  }

  /** Runs the work in a slot that the caller has acquired; frees the slot at the end. */
  async #inPlace<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } finally {
      this.#workingCount--;
      this.#admitWaiting();
    }
  }

  #pieces<Piece>(body: AsyncIterable<Piece>): AsyncIterable<Piece> {
    const pieces = body[Symbol.asyncIterator]();
    const counted: AsyncIterator<Piece> = {
      next: () => {
        this.#workingCount++;
        return this.#inPlace(() => pieces.next());
      },
      return: async () => (await pieces.return?.()) ?? { done: true, value: undefined },
    };
    return { [Symbol.asyncIterator]: () => counted };
  }

  #admitWaiting(): void {
    for (const enter of this.#waiting) {
      if (!this.#hasRoom()) return;
      this.#waiting.delete(enter);
      this.#workingCount++;
      enter();
    }
  }

  #hasRoom(): boolean {
    return this.#workingCount < this.#limits.requestsMax;
  }
}
