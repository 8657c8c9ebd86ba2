/**
 * Limits of waiting. A test fails, and names what it waits for, when nothing has happened for a number of ticks of its own process, or
 * when it has asked too often. A tick of a process that gets no time is late and counts once, so a busy machine does not shorten a wait.
 */
import { subscribe } from "node:diagnostics_channel";

const FACTOR = Number(process.env.TEST_PATIENCE ?? 1);

/** `silentTicksMax`: ticks without any event. */
const LIMITS = { tickMs: 100, silentTicksMax: 3_000 * FACTOR };
/** Questions of one wait, each after an event: more are asked in a circle. */
const QUESTIONS_MAX = 50_000 * FACTOR;

/** Events at which something happens: requests and answers of this process, whichever side it is. */
const CHANNELS = [
  "http.server.request.start",
  "http.server.response.finish",
  "undici:request:create",
  "undici:request:headers",
];

interface Wait {
  readonly what: string;
  fail(error: Error): void;
}

export class Patience {
  readonly #waits = new Set<Wait>();
  readonly #silentTicksMax: number;
  #silentTickCount = 0;

  constructor({ tickMs, silentTicksMax } = LIMITS) {
    this.#silentTicksMax = silentTicksMax;
    setInterval(() => this.#tick(), tickMs).unref();
    for (const channel of CHANNELS) subscribe(channel, () => this.heard());
  }

  /** Notes that something has happened. */
  heard(): void {
    this.#silentTickCount = 0;
  }

  /** Resolves as `promise` does, and rejects when nothing has happened for too long. */
  async until<T>(what: string, promise: Promise<T>): Promise<T> {
    let wait: Wait | undefined;
    const limit = new Promise<never>((_, reject) => {
      wait = { what, fail: reject };
      this.#waits.add(wait);
    });
    try {
      return await Promise.race([promise, limit]);
    } finally {
      this.#waits.delete(wait as Wait);
    }
  }

  #tick(): void {
    if (this.#waits.size === 0) this.#silentTickCount = 0;
    if (++this.#silentTickCount <= this.#silentTicksMax) return;
    const whats = [...this.#waits].map(({ what }) => what).join(", ");
    const silence = `Nothing has happened for ${this.#silentTicksMax} ticks of this process`;
    const error = new Error(`${silence}, which waits for ${whats}`);
    for (const { fail } of this.#waits) fail(error);
    this.#silentTickCount = 0;
  }
}

/** Modules are loaded again for each file; the process keeps one. */
const kept = globalThis as { patience?: Patience };
kept.patience ??= new Patience();
export const patience = kept.patience;

/** Asks, and again each time that `changed` resolves, until the answer passes. Rejects with the last answer after too many questions. */
export async function askUntil<T>(
  what: string,
  {
    ask,
    passes,
    changed,
  }: {
    readonly ask: () => Promise<T>;
    readonly passes: (answer: T) => boolean;
    /** Called before the question, so that no change is missed. */
    readonly changed: () => () => Promise<unknown>;
  },
  questionsMax = QUESTIONS_MAX,
): Promise<T> {
  for (let count = 0; ; count++) {
    const next = changed();
    const answer = await patience.until(what, ask());
    if (passes(answer)) return answer;
    const last = `${what}; the last answer is ${shown(answer)}`;
    if (count === questionsMax) throw new Error(`Asked ${count} times for ${last}`);
    await patience.until(last, next());
  }
}

function shown(answer: unknown): string {
  return String(typeof answer === "object" ? JSON.stringify(answer) : answer).slice(0, 500);
}
