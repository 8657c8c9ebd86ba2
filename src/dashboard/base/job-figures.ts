/** Values derived from jobs and servers. */
import type { EndpointRow, Job } from "../../contract/index.ts";

/**
 * Returns the end of the last run that is known to have succeeded, if the job's history contains
 * it. A stopped run counts if the lag is known and the job was not failing when the run ended. A
 * known lag proves that the source responded.
 */
export function lastSuccess({ history, lag_sec, failing_since }: Job): string | null {
  const isProven = ({ timestamp, type }: Job["history"][number]): boolean => {
    if (type === "parked" || type === "completed") return true;
    const isFailing = failing_since !== null && timestamp >= failing_since;
    return type === "stopped" && lag_sec !== null && !isFailing;
  };
  return history.find(isProven)?.timestamp ?? null;
}

/**
 * Whether a server can be reached: false during a confirmed outage; null during an unconfirmed
 * outage, or if the server has no recent responses.
 */
export function isReached({
  outage,
  latency_ms: latency,
}: Pick<EndpointRow, "outage" | "latency_ms">): boolean | null {
  if (outage !== null) return outage.confirmed ? false : null;
  return latency === null ? null : true;
}

/** Returns an address without scheme and final slash: `host/name`. */
export function shortAddress(address: string | null): string {
  if (address === null) return "?";
  return address.replace(/^https?:\/\//, "").replace(/\/$/, "");
}

/**
 * Returns the fraction of the known changes that has been processed, from 0 to 1; `undefined` if
 * their number is unknown.
 */
export function progressOf({ info, pending }: Job): number | undefined {
  const checked = info?.revisions_checked;
  if (typeof checked !== "number" || pending === null) return undefined;
  if (checked + pending === 0) return 1;
  return checked / (checked + pending);
}
