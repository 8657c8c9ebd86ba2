/** Periods as CouchDB's scanner reads them: `30_min`, `2_weeks`. */

const SEC = 1_000;
const DAY = 86_400 * SEC;

const UNITS_MS: readonly (readonly [lengthMs: number, names: string])[] = [
  [SEC, "s sec second seconds"],
  [60 * SEC, "min minute minutes"],
  [3_600 * SEC, "h hrs hour hours"],
  [DAY, "d day days"],
  [7 * DAY, "w week weeks"],
  [30 * DAY, "mon month months"],
  [365 * DAY, "y year years"],
];

/**
 * Returns a time to live in milliseconds (`deleted_document_ttl`): `Infinity` for `infinity`,
 * undefined for an invalid text.
 */
export function parseTtl(text: string): number | undefined {
  if (text === "infinity") return Number.POSITIVE_INFINITY;
  const match = /^\+?(\d{1,10})_([a-z]+)$/.exec(text);
  const unit = UNITS_MS.find(([, names]) => names.split(" ").includes(match?.[2] ?? ""));
  if (match === null || unit === undefined || Number(match[1]) === 0) return undefined;
  return Number(match[1]) * unit[0];
}
