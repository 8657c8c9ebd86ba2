/**
 * How many requests are worked on at once. Those beyond wait, first come, first served; when too many wait, further ones are
 * refused with an OverloadedError, which is 503 with `Retry-After`.
 *
 * A request has its place until it is answered. The pieces of a long answer are made later, as the client reads: each counts while
 * it is made and never waits, so a client that reads slowly keeps no place, and one that is being answered gets the rest.
 */
import { OperationalError } from "../../base/index.ts";
import type { ApiRequest, ApiResponse } from "./exchange.ts";
import type { AdmissionRule } from "./route-facts.ts";

/** Read at each use. */
export interface AdmissionLimits {
  /** `[tandem] max_requests`: requests that are worked on at once. */
  readonly requestsMax: number;
  /** `[tandem] max_waiting_requests`: requests that wait to be worked on. */
  readonly waitingRequestsMax: number;
}

/** As many requests are under way as the node takes. */
export class OverloadedError extends OperationalError {
  override readonly name = "OverloadedError";

  constructor() {
    super("API_OVERLOADED", "Too many requests are under way");
  }
}

/** Whether the request needs a place. */
export function needsPlace(rule: AdmissionRule, query: ApiRequest["query"]): boolean {
  const isLive = (query.get("feed") ?? "normal") !== "normal";
  return rule === "counted" || (rule === "free-if-live" && !isLive);
}

export class Admission {
  readonly #limits: AdmissionLimits;
  /** In the order in which they came; each is called when it gets its place. */
  readonly #waiting = new Set<() => void>();
  #workingCount = 0;

  constructor(limits: AdmissionLimits) {
    this.#limits = limits;
  }

  /**
   * Does the work in a place of its own, and makes the pieces of its answer as this class says. Throws an OverloadedError when there
   * is no room, and the signal's reason when it aborts during the wait.
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

  /** The place of the work is taken already; it is free when the work has ended. */
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
