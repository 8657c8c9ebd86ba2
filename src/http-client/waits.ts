/**
 * Measures why the requests of a run wait before they are sent, and for what fraction of the time.
 */
import type { Clock } from "../base/index.ts";

/** Cause of a delay: a `budget` of an operator, or a server that responds with 429 (`limiter`). */
export type WaitReason = "budget" | "limiter";
const REASONS: readonly WaitReason[] = ["budget", "limiter"];

/**
 * A cause is reported only if it delayed the run's requests for at least this fraction of the time.
 */
const PART_MIN = 0.5;

interface Waiting {
  /** Number of requests waiting now. */
  count: number;
  /** Time at which the last announced wait ends. */
  untilMs: number;
  /** Time during which at least one request waited, up to the last update. */
  waitedMs: number;
}

export class Waits {
  readonly #clock: Pick<Clock, "monotonicMs">;
  readonly #waiting: Readonly<Record<WaitReason, Waiting>> = {
    budget: { count: 0, untilMs: 0, waitedMs: 0 },
    limiter: { count: 0, untilMs: 0, waitedMs: 0 },
  };
  #lookedAtMs: number;
  #beganAtMs: number;

  constructor(clock: Pick<Clock, "monotonicMs">) {
    this.#clock = clock;
    this.#lookedAtMs = clock.monotonicMs();
    this.#beganAtMs = this.#lookedAtMs;
  }

  /** Counts the duration of `pause` as a delay caused by `reason`. */
  async during<T>(reason: WaitReason, pause: Promise<T>): Promise<T> {
    this.#look();
    this.#waiting[reason].count++;
    try {
      return await pause;
    } finally {
      this.#look();
      this.#waiting[reason].count--;
    }
  }

  /** Announces that a request will wait for this long. */
  expect(reason: WaitReason, durationMs: number): void {
    this.#look();
    const waiting = this.#waiting[reason];
    waiting.untilMs = Math.max(waiting.untilMs, this.#lookedAtMs + durationMs);
  }

  /**
   * Returns the cause that delayed requests for at least half of the time since the last call, if
   * any.
   */
  take(): WaitReason | undefined {
    this.#look();
    const elapsedMs = this.#lookedAtMs - this.#beganAtMs;
    const held = REASONS.find(
      (reason) => elapsedMs > 0 && this.#waiting[reason].waitedMs >= elapsedMs * PART_MIN,
    );
    this.#beganAtMs = this.#lookedAtMs;
    for (const reason of REASONS) this.#waiting[reason].waitedMs = 0;
    return held;
  }

  #look(): void {
    const nowMs = this.#clock.monotonicMs();
    for (const reason of REASONS) {
      const waiting = this.#waiting[reason];
      const untilMs = waiting.count > 0 ? nowMs : Math.min(nowMs, waiting.untilMs);
      waiting.waitedMs += Math.max(0, untilMs - this.#lookedAtMs);
    }
    this.#lookedAtMs = nowMs;
  }
}
