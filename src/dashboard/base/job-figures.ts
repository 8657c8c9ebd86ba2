/** Values derived from a job. */
import type { Job } from "../../contract/index.ts";

/** End of the last run without a failure, if the job's history contains it; otherwise null. */
export function lastSuccess({ history }: Job): string | null {
  return (
    history.find(({ type }) => ["stopped", "parked", "completed"].includes(type))?.timestamp ?? null
  );
}

/** An address without scheme and final slash: `host/name`. */
export function shortAddress(address: string | null): string {
  if (address === null) return "?";
  return address.replace(/^https?:\/\//, "").replace(/\/$/, "");
}

/**
 * Fraction of the known changes that has been processed, from 0 to 1; undefined if their number is
 * unknown.
 */
export function progressOf({ info, pending }: Job): number | undefined {
  const checked = info?.revisions_checked;
  if (typeof checked !== "number" || pending === null) return undefined;
  if (checked + pending === 0) return 1;
  return checked / (checked + pending);
}
