/** What the pages show of a job beside what the node says. Pure. */
import type { Job } from "../../contract/index.ts";

/** When the last run without a failure ended, as far as the history of the job knows; null: it does not. */
export function lastSuccess({ history }: Job): string | null {
  return (
    history.find(({ type }) => ["stopped", "parked", "completed"].includes(type))?.timestamp ?? null
  );
}

/** An address without what all of them have: `host/name`. */
export function shortAddress(address: string | null): string {
  if (address === null) return "?";
  return address.replace(/^https?:\/\//, "").replace(/\/$/, "");
}

/** The share of the known changes that have been looked at, from 0 to 1; undefined while nobody knows how many there are. */
export function progressOf({ info, pending }: Job): number | undefined {
  const checked = info?.revisions_checked;
  if (typeof checked !== "number" || pending === null) return undefined;
  if (checked + pending === 0) return 1;
  return checked / (checked + pending);
}
