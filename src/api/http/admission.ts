/**
 * Limits the number of requests in progress. Others wait, first come, first served; if too many
 * wait, further ones are refused with an OverloadedError, which is 503 with `Retry-After`.
 *
 * A request occupies its place until it is answered. The pieces of a long response are produced
 * later, as the client reads: each counts while it is produced and never waits, so a slow client
 * occupies no place, and a response that has begun is completed.
 */
import { OperationalError } from "../../base/index.ts";
import type { ApiRequest, ApiResponse } from "./exchange.ts";
import type { AdmissionRule } from "./route-facts.ts";

/** Read on each use. */
export interface AdmissionLimits {
  /** `[tandem] max_requests`: maximum number of requests in progress. */
  readonly requestsMax: number;
  /** `[tandem] max_waiting_requests`: maximum number of requests waiting for a place. */
  readonly waitingRequestsMax: number;
}

/** The node has as many requests in progress as it accepts. */
export class OverloadedError extends OperationalError {
  override readonly name = "OverloadedError";

  constructor() {
    super("API_OVERLOADED", "Too many requests in progress");
  }
}

/** Whether the request needs a place. */
export function needsPlace(rule: AdmissionRule, query: ApiRequest["query"]): boolean {
  const isLive = (query.get("feed") ?? "normal") !== "normal";
  return rule === "counted" || (rule === "free-if-live" && !isLive);
}

export class Admission {
  readonly #limits: AdmissionLimits;
  /** In order of arrival. Each is called when it gets its place. */
  readonly #waiting = new Set<() => void>();
  #workingCount = 0;

  constructor(limits: AdmissionLimits) {
    this.#limits = limits;
  }

  /**
   * Processes a request in its own place, and produces the pieces of its response as described
   * above. Throws an OverloadedError if there is no room, and the signal's reason if it aborts
   * during the wait.
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

  /** The place has already been taken; it is freed when the work has ended. */
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
