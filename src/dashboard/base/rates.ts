/** Rates per second from counts per minute. */

/** Minimum part of a minute that yields a meaningful rate. */
const SECONDS_MIN = 10;

/** Returns the rate in each minute; null if there are no counts or they cover too short a time. */
export function perSecond<Minute extends { readonly seconds: number }>(
  minutes: readonly Minute[],
  countOf: (minute: Minute) => number | null,
): (number | null)[] {
  return minutes.map((minute) => {
    const count = countOf(minute);
    return count === null || minute.seconds < SECONDS_MIN ? null : count / minute.seconds;
  });
}
