/**
 * Time limits of tests, in ticks of the test process. A test or hook fails after too many ticks
 * without an event, too many ticks in one wait or in total, or too many polls. The error names
 * everything that the test waits for.
 *
 * If the process gets no CPU time, its tick is late and counts only once, so that a busy machine
 * does not shorten a wait. On two cores under five times their load, no test needed more than 803
 * ticks, 255 ticks without an event, or 271 polls.
 */
import { subscribe } from "node:diagnostics_channel";

const FACTOR = Number(process.env.TEST_PATIENCE ?? 1);

/**
 * `silentTicksMax` is the maximum number of consecutive ticks without any event. `ticksMax` is the
 * maximum number of ticks of one wait, regardless of events.
 */
const LIMITS = { tickMs: 100, silentTicksMax: 1_000 * FACTOR, ticksMax: 1_200 * FACTOR };
/** Maximum number of ticks of a whole test or hook. */
export const TEST_TICKS_MAX = 2_400 * FACTOR;
/**
 * Maximum number of polls in one wait. Each poll follows an event, so a higher number indicates a
 * loop.
 */
const QUESTIONS_MAX = 5_000 * FACTOR;

/**
 * Events that count as activity: requests and responses of this process, as a client or as a
 * server.
 */
const CHANNELS = [
  "http.server.request.start",
  "http.server.response.finish",
  "undici:request:create",
  "undici:request:headers",
];

interface Wait {
  readonly what: () => string;
  readonly ticksMax: number;
  tickCount: number;
  fail(error: Error): void;
}

export class Patience {
  readonly #waits = new Set<Wait>();
  readonly #limits: typeof LIMITS;
  #silentTickCount = 0;

  constructor(limits: Partial<typeof LIMITS> = {}) {
    this.#limits = { ...LIMITS, ...limits };
    setInterval(() => this.#tick(), this.#limits.tickMs).unref();
    for (const channel of CHANNELS) subscribe(channel, () => this.heard());
  }

  /** Records that there was activity. */
  heard(): void {
    this.#silentTickCount = 0;
  }

  /**
   * Settles like `promise`. Rejects after too much time without activity, or after `ticksMax`
   * ticks.
   */
  async until<T>(
    what: string | (() => string),
    promise: Promise<T>,
    ticksMax = this.#limits.ticksMax,
  ): Promise<T> {
    let wait: Wait | undefined;
    const limit = new Promise<never>((_, fail) => {
      wait = {
        what: () => (typeof what === "string" ? what : what()),
        ticksMax,
        tickCount: 0,
        fail,
      };
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
    for (const wait of this.#waits) {
      if (++wait.tickCount <= wait.ticksMax) continue;
      wait.fail(this.#error(`Not over after ${wait.ticksMax} ticks of this process`));
    }
    const { silentTicksMax } = this.#limits;
    if (++this.#silentTickCount <= silentTicksMax) return;
    const error = this.#error(`Nothing has happened for ${silentTicksMax} ticks of this process`);
    for (const { fail } of this.#waits) fail(error);
    this.#silentTickCount = 0;
  }

  #error(problem: string): Error {
    const whats = [...this.#waits].map(({ what }) => what());
    return new Error(`${problem}, which waits for ${whats.join(", ")}`);
  }
}

/** State that the whole process shares, because modules are loaded again for each file. */
const kept = globalThis as { patience?: Patience };
kept.patience ??= new Patience();
export const patience = kept.patience;

/**
 * Polls initially, and each time `changed` resolves, until `passes` accepts the response. Rejects
 * with the last response after too many polls.
 */
export async function askUntil<T>(
  what: string,
  {
    ask,
    passes,
    changed,
  }: {
    readonly ask: () => Promise<T>;
    readonly passes: (answer: T) => boolean;
    /**
     * Called before each poll. Returns a function that waits for the next change, so that a change
     * during the poll is not missed.
     */
    readonly changed: () => () => Promise<unknown>;
  },
  questionsMax = QUESTIONS_MAX,
): Promise<T> {
  let last = "no answer yet";
  let isOver = false;
  const asking = async (): Promise<T> => {
    for (let count = 0; !isOver; count++) {
      const next = changed();
      const answer = await ask();
      if (passes(answer)) return answer;
      last = shown(answer);
      if (count === questionsMax) throw new Error(`Asked ${count} times for ${description()}`);
      await next();
    }
    throw new Error("The wait has ended");
  };
  const description = (): string => `${what}; the last answer is ${last}`;
  try {
    return await patience.until(description, asking());
  } finally {
    isOver = true;
  }
}

function shown(answer: unknown): string {
  return String(typeof answer === "object" ? JSON.stringify(answer) : answer).slice(0, 500);
}
