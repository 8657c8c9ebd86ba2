/**
 * Turns of a long piece of work: between two of them the event loop serves everybody else. Promises alone do not give way, since what is
 * already there goes on before anything else is looked at.
 */
import type { Clock } from "./runtime.ts";

/** Nobody notices so short a wait, and the price of giving way is small beside it. */
const TURN_MS = 10;

export class Turns {
  readonly #clock: Clock;
  #beganMs: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#beganMs = clock.monotonicMs();
  }

  /** Whether others have waited long enough. Cheap enough to ask between any two pieces of some microseconds. */
  get areDue(): boolean {
    return this.#clock.monotonicMs() - this.#beganMs >= TURN_MS;
  }

  /** Lets all others have their turn. Call it when `areDue`. */
  async give(): Promise<void> {
    await this.#clock.sleep(0);
    this.#beganMs = this.#clock.monotonicMs();
  }
}

/** Of bytes that are copied between two turns: some milliseconds, where memory has to be taken for them. */
const COPIED_BYTES = 1_000_000;

/** The pieces one behind the other, in memory of their own. */
export async function joinInTurns(
  pieces: readonly Uint8Array[],
  turns: Turns,
): Promise<Uint8Array<ArrayBuffer>> {
  const joined = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const piece of pieces) {
    for (let begin = 0; begin < piece.length; begin += COPIED_BYTES) {
      if (turns.areDue) await turns.give();
      const part = piece.subarray(begin, begin + COPIED_BYTES);
      joined.set(part, at);
      at += part.length;
    }
  }
  return joined;
}
