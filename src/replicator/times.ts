/** CouchDB's time formats. */

const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** Formats a time as in RFC 1123: `Thu, 10 Oct 2013 05:56:38 GMT`. */
export function httpDate(timeMs: number): string {
  const date = new Date(timeMs);
  const two = (value: number): string => String(value).padStart(2, "0");
  const day = `${DAYS[date.getUTCDay()]}, ${two(date.getUTCDate())} ${MONTHS[date.getUTCMonth()]}`;
  const time = [date.getUTCHours(), date.getUTCMinutes(), date.getUTCSeconds()].map(two).join(":");
  return `${day} ${date.getUTCFullYear()} ${time} GMT`;
}

/** Formats a time as `YYYY-MM-DDTHH:MM:SSZ`. */
export function isoTime(timeMs: number): string {
  return `${new Date(timeMs).toISOString().slice(0, 19)}Z`;
}
