/** Formats numbers, times and texts. Functions are pure: the current time is an argument. */

const NUMBER = new Intl.NumberFormat("en");
const DECIMAL = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export function formatNumber(value: number): string {
  return NUMBER.format(value);
}

/** Formats a number with its noun: `1 job`, `1,200 jobs`. */
export function formatCount(count: number, one: string, many = `${one}s`): string {
  return `${NUMBER.format(count)} ${count === 1 ? one : many}`;
}

export function capitalized(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

/** Formats a duration in at most two units: `0 s`, `59 s`, `4 min`, `3 h 5 min`, `2 d 4 h`. */
export function formatDuration(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3_600) return pair([Math.floor(whole / 60), "min"], [whole % 60, "s"], whole < 600);
  if (whole < 86_400) return pair([Math.floor(whole / 3_600), "h"], [minutes(whole), "min"]);
  return pair([Math.floor(whole / 86_400), "d"], [Math.floor((whole % 86_400) / 3_600), "h"]);
}

function minutes(seconds: number): number {
  return Math.floor((seconds % 3_600) / 60);
}

type Part = readonly [value: number, unit: string];

function pair([large, largeUnit]: Part, [small, smallUnit]: Part, hasSmall = true): string {
  const first = `${NUMBER.format(large)} ${largeUnit}`;
  return small === 0 || !hasSmall ? first : `${first} ${small} ${smallUnit}`;
}

/** Formats a size in units of 1,000: `812 B`, `4.2 kB`. */
export function formatBytes(byteCount: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  const step = byteCount < 1 ? 0 : Math.floor(Math.log10(byteCount) / 3);
  const power = Math.min(units.length - 1, step);
  return `${DECIMAL.format(byteCount / 1000 ** power)} ${units[power]}`;
}

/** Formats a rate per second with its unit. */
export function formatRate(perSec: number, unit: string): string {
  return `${DECIMAL.format(perSec)} ${unit}/s`;
}

/**
 * Formats a relative time: `3 min ago`, `in 20 s`, `now`. Uses only the larger unit, so that the
 * text does not flicker.
 */
export function formatDistance(time: string, nowMs: number): string {
  const seconds = (Date.parse(time) - nowMs) / 1000;
  if (Math.abs(seconds) < 1) return "now";
  const [length = ""] = /^\S+ \S+/.exec(formatDuration(Math.abs(seconds))) ?? [];
  return seconds < 0 ? `${length} ago` : `in ${length}`;
}

/** Time zone for display; `undefined` is that of the browser. */
export type TimeZone = "UTC" | undefined;

/** Formatters are cached: creating one is slow, and long lists contain many timestamps. */
const timeFormats = new Map<TimeZone, Intl.DateTimeFormat>();

/** Formats an absolute time: `23 Nov 2026, 14:24:35 UTC`. */
export function formatTime(time: string, timeZone: TimeZone): string {
  let format = timeFormats.get(timeZone);
  if (format === undefined) {
    format = new Intl.DateTimeFormat("en-GB", {
      day: "numeric",
      month: "short",
      year: "numeric",
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
      timeZoneName: "short",
      timeZone,
    });
    timeFormats.set(timeZone, format);
  }
  return format.format(new Date(time));
}

/** Invisible characters, and characters that change the text direction. */
export const UNSEEN = /[\p{Cc}\p{Cf}\u115f\u1160\u2028\u2029\u3164\uffa0]/gu;

/** Shows invisible characters in untrusted text, such as ids and names, as code points. */
export function visibleText(text: string): string {
  return text.replace(
    UNSEEN,
    (char) => `⟨U+${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}⟩`,
  );
}
