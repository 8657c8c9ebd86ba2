/** CouchDB's time formats. */

/** Formats a time as in RFC 1123: `Thu, 10 Oct 2013 05:56:38 GMT`. */
export function httpDate(timeMs: number): string {
  return new Date(timeMs).toUTCString();
}

/** Formats a time as `YYYY-MM-DDTHH:MM:SSZ`. */
export function isoTime(timeMs: number): string {
  return `${new Date(timeMs).toISOString().slice(0, 19)}Z`;
}
