/** The start of a changes feed as a time, `YYYY-MM-DDTHH:MM:SSZ` (CouchDB after 3.5). */
import { badRequest } from "./protocol-error.ts";

/**
 * CouchDB treats every text of this form as a time. No sequence has this form, because no sequence
 * contains a colon.
 */
const FORM = /^.{4}-.{2}-.{2}T.{2}:.{2}:.{2}Z$/s;

export function hasTimeForm(text: string): boolean {
  return FORM.test(text);
}

/**
 * Returns the time in milliseconds since 1970; undefined if the text does not have the form of a
 * time. Throws CouchDB's error for a time that does not exist.
 */
export function sinceTime(text: string): number | undefined {
  if (!hasTimeForm(text)) return undefined;
  const timeMs = Date.parse(text);
  // `Date.parse` also accepts 24:00:00 and the 31st of any month.
  const isTime =
    !Number.isNaN(timeMs) && new Date(timeMs).toISOString() === text.replace("Z", ".000Z");
  if (isTime) return timeMs;
  throw badRequest("invalid_time_format");
}

/** Formats a time in the form that `sinceTime` reads, rounded down to a second. */
export function formatSinceTime(timeMs: number): string {
  return new Date(timeMs).toISOString().replace(/\.\d+Z$/, "Z");
}
