/** The filter with which an operator chooses jobs. */
import { endpointUrl } from "../request/endpoint-url.ts";
import type { EndpointAddress } from "../request/replication.ts";
import { failureOf } from "./job-data.ts";
import type { JobEntry } from "./job-views.ts";

/** A job has to match all members that are there. */
export interface JobFilter {
  /** A state as `_scheduler` shows it. */
  readonly state?: string;
  /** The `_replicator` database of the job's document. */
  readonly database?: string;
  /** The host of the source (`example.com`, `example.com:5984`), or the name of a database of our own. */
  readonly source?: string;
  /** The same for the target. */
  readonly target?: string;
  readonly owner?: string;
  /** Stands in the reason why the job failed last. */
  readonly error?: string;
}

export function matchesFilter(
  filter: JobFilter,
  { data, state: shownState }: Pick<JobEntry, "data" | "state">,
): boolean {
  const { state, database, source, target, owner, error } = filter;
  const { replication } = data;
  const failure = failureOf(data);
  return (
    (state === undefined || state === shownState) &&
    (database === undefined || database === data.document?.database) &&
    (owner === undefined || owner === data.userName) &&
    (source === undefined || isAt(source, replication?.source)) &&
    (target === undefined || isAt(target, replication?.target)) &&
    (error === undefined || `${failure?.error ?? ""}: ${failure?.reason ?? ""}`.includes(error))
  );
}

function isAt(place: string, address: EndpointAddress | undefined): boolean {
  if (address === undefined) return false;
  if (address.kind === "local") return address.database === place;
  const { host, hostname } = endpointUrl(address);
  return host === place.toLowerCase() || hostname === place.toLowerCase();
}
