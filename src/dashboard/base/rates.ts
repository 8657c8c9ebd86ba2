/** Rates of counts by the minute. Pure. */

/** A minute that has just begun says little. */
const SECONDS_MIN = 10;

/** Of each minute, per second; null where nothing was counted, or not for long enough yet. */
export function perSecond<Minute extends { readonly seconds: number }>(
  minutes: readonly Minute[],
  countOf: (minute: Minute) => number | null,
): (number | null)[] {
  return minutes.map((minute) => {
    const count = countOf(minute);
    return count === null || minute.seconds < SECONDS_MIN ? null : count / minute.seconds;
  });
}
