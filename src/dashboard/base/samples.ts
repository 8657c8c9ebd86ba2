/** Samples of counters and rates over the last hour. Pure. */

export interface Sample {
  readonly timeMs: number;
  /** Of all running jobs together. */
  readonly docsPerSec: number;
  /** Since the start of the node. */
  readonly startCount: number;
  readonly crashCount: number;
}

const KEPT_MS = 3_600_000;
/** Between two samples that are further apart nothing is known. */
const GAP_MS = 60_000;

/** The samples of the last hour, the new one among them. */
export function addSample(samples: readonly Sample[], sample: Sample): readonly Sample[] {
  return [...samples, sample].filter(({ timeMs }) => timeMs > sample.timeMs - KEPT_MS);
}

/** How fast a counter grew up to each sample; null at the first, after a gap, and where a restart set it back. */
export function perMinute(
  samples: readonly Sample[],
  counterOf: (sample: Sample) => number,
): (number | null)[] {
  return samples.map((sample, index) => {
    const before = samples[index - 1];
    if (before === undefined || sample.timeMs - before.timeMs > GAP_MS) return null;
    const growth = counterOf(sample) - counterOf(before);
    const minutes = (sample.timeMs - before.timeMs) / 60_000;
    return growth < 0 || minutes <= 0 ? null : growth / minutes;
  });
}
