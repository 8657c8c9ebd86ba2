/**
 * Faults of a simulated cluster. Each run enables some of the faults, and draws the probability of
 * each from the seed, so that one run explores one kind of bad luck (FoundationDB's buggification).
 * Faults overlap, and each fault ends by itself.
 */
import type { SeededRandom } from "../kernel/seeded-random.ts";
import type { World } from "../kernel/world.ts";

export interface Fault {
  readonly name: string;
  /** Starts the fault. Returns a function that ends it. */
  strike(random: SeededRandom): () => void;
  readonly durationMsMax: number;
}

const DURATION_MS_MIN = 300;
const ARMED_RATIO = 0.6;

export class Faults {
  readonly #world: World;
  readonly #random: SeededRandom;
  readonly #armed: readonly { readonly fault: Fault; readonly weight: number }[];
  readonly #pauseMsMax: number;

  constructor(world: World, random: SeededRandom, faults: readonly Fault[]) {
    this.#world = world;
    this.#random = random;
    this.#armed = faults
      .map((fault) => ({ fault, weight: random.ratio() }))
      .filter(() => random.chance(ARMED_RATIO));
    this.#pauseMsMax = random.between(2000, 8000);
  }

  /** Starts faults until `untilMs`. Each fault ends by itself, or when all faults are healed. */
  schedule(untilMs: number): void {
    const { time } = this.#world;
    const random = this.#random;
    const strike = (): void => {
      if (time.nowMs >= untilMs) return;
      const fault = this.#pick();
      if (fault !== undefined) {
        this.#world.announce("world", "fault", { name: fault.name });
        const end = fault.strike(random);
        time.schedule(random.between(DURATION_MS_MIN, fault.durationMsMax), end);
      }
      time.schedule(random.between(DURATION_MS_MIN, this.#pauseMsMax), strike);
    };
    time.schedule(random.between(DURATION_MS_MIN, this.#pauseMsMax), strike);
  }

  #pick(): Fault | undefined {
    let draw = this.#random.ratio() * this.#armed.reduce((sum, { weight }) => sum + weight, 0);
    return this.#armed.find(({ weight }) => {
      draw -= weight;
      return draw < 0;
    })?.fault;
  }
}
