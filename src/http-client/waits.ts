/** What the requests of one run wait for, before they are sent, and for how much of the time. */
import type { Clock } from "../base/index.ts";

/** A budget of an operator; or a server that wants fewer requests. */
export type WaitReason = "budget" | "limiter";
const REASONS: readonly WaitReason[] = ["budget", "limiter"];

/** A run waits for something when some request of it does for this part of the time. */
const PART_MIN = 0.5;

interface Waiting {
  /** Requests that wait now. */
  count: number;
  /** Somebody waits until then, whoever it is. */
  untilMs: number;
  /** For how long somebody waited, up to the last look. */
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

  /** While this pause lasts a request waits for that. */
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

  /** A request will wait for so long. */
  expect(reason: WaitReason, durationMs: number): void {
    this.#look();
    const waiting = this.#waiting[reason];
    waiting.untilMs = Math.max(waiting.untilMs, this.#lookedAtMs + durationMs);
  }

  /** What held the run back most of the time since the last call; undefined: nothing did. */
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
