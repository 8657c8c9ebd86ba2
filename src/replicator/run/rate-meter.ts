/** Measures the copying rates within the last seconds. Pure. */
import type { CopyRates } from "../jobs/job-data.ts";

/** Averaging window; a shorter run is averaged as a whole. */
const WINDOW_MS = 10_000;

interface Sample {
  readonly timeMs: number;
  readonly docs: number;
  readonly bytes: number;
}

export class RateMeter {
  #samples: readonly Sample[] = [];

  /**
   * Adds a sample: cumulative totals at a monotonic time. Samples must be added in order of time.
   */
  sample(sample: Sample): void {
    const fromMs = sample.timeMs - WINDOW_MS;
    // Keep the last sample taken before the window. It is the start of the window.
    const first = this.#samples.findLastIndex(({ timeMs }) => timeMs <= fromMs);
    this.#samples = [...this.#samples.slice(Math.max(0, first)), sample];
  }

  get rates(): CopyRates {
    const first = this.#samples[0];
    const last = this.#samples.at(-1);
    const elapsedMs = first === undefined || last === undefined ? 0 : last.timeMs - first.timeMs;
    if (first === undefined || last === undefined || elapsedMs <= 0) {
      return { docsPerSec: 0, bytesPerSec: 0 };
    }
    const perSec = (amount: number): number => Math.round((amount * 10_000) / elapsedMs) / 10;
    return {
      docsPerSec: perSec(last.docs - first.docs),
      bytesPerSec: Math.round(perSec(last.bytes - first.bytes)),
    };
  }
}
