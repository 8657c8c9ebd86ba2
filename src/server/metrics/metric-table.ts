/**
 * The counters, each with the traced event that it counts. Names are CouchDB's where it has the
 * metric (`couch_replicator.jobs.crashes` in `_stats`,
 * `couchdb_couch_replicator_jobs_crashes_total` in `_prometheus`); ours begin with `tandem`.
 */

import type { EventName, Events } from "../../base/index.ts";

export interface CounterRow {
  /** Name in `_stats`. */
  readonly path: readonly string[];
  readonly description: string;
  /** Name in `_prometheus`, if it does not follow from the path. */
  readonly name?: string;
  /** Label whose value is the last path segment. */
  readonly label?: string;
  readonly event: EventName;
  /** The amount added per event, 0 for events that do not count. Default: 1 for all. */
  amount?(fields: Events[EventName]): number;
  /** Value of the label. */
  labelOf?(fields: Events[EventName]): string;
}

const isFailure = ({ status }: Events["http.answered"]): boolean =>
  status === undefined || status >= 400;

function replicator<Name extends EventName>(
  path: string,
  description: string,
  event: Name,
  amount?: (fields: Events[Name]) => number,
): CounterRow {
  return {
    path: ["couch_replicator", ...path.split(".")],
    description,
    event,
    ...(amount === undefined ? {} : { amount }),
  };
}

function tandem<Name extends EventName>(
  path: string,
  description: string,
  event: Name,
  amount?: (fields: Events[Name]) => number,
): CounterRow {
  return {
    path: ["tandem", ...path.split(".")],
    description,
    event,
    ...(amount === undefined ? {} : { amount }),
  };
}

export const COUNTERS: readonly CounterRow[] = [
  {
    path: ["couchdb", "httpd", "requests"],
    name: "couchdb_httpd_requests_total",
    description: "number of HTTP requests",
    event: "api.answered",
  },
  {
    path: ["couchdb", "httpd_request_methods"],
    name: "couchdb_httpd_request_methods",
    description: "number of HTTP requests by their method",
    event: "api.answered",
    label: "method",
    labelOf: ({ method }: Events["api.answered"]) => knownMethod(method),
  },
  {
    path: ["couchdb", "httpd_status_codes"],
    name: "couchdb_httpd_status_codes",
    description: "number of HTTP responses by their status",
    event: "api.answered",
    label: "code",
    labelOf: ({ status }: Events["api.answered"]) => String(status),
  },
  replicator(
    "jobs.accepts",
    "number of jobs that this process took from the queue",
    "replication.accepted",
  ),
  replicator("jobs.starts", "number of replications started", "replication.started"),
  replicator(
    "jobs.stops",
    "number of runs that ended and gave their job back to the queue",
    "replication.ended",
    ({ state }) => Number(state === "pending"),
  ),
  replicator("jobs.crashes", "number of runs that crashed", "replication.crashed"),
  replicator("checkpoints.success", "number of checkpoints written", "replication.checkpoint"),
  replicator(
    "checkpoints.failure",
    "number of last checkpoints that failed",
    "replication.last-checkpoint-failed",
  ),
  replicator("requests", "number of HTTP requests made by the replicator", "http.answered"),
  replicator(
    "responses.success",
    "number of successful HTTP responses received by the replicator",
    "http.answered",
    (fields) => Number(!isFailure(fields)),
  ),
  replicator(
    "responses.failure",
    "number of failed HTTP responses received by the replicator",
    "http.answered",
    (fields) => Number(isFailure(fields)),
  ),
  tandem(
    "replications.completed",
    "number of replications that came to their end",
    "replication.ended",
    ({ state }) => Number(state === "completed"),
  ),
  tandem(
    "replications.failed",
    "number of replications that failed for good",
    "replication.failed",
  ),
  tandem(
    "replications.halted",
    "number of runs that lost their job and wrote nothing more",
    "replication.halted",
  ),
  tandem(
    "replications.stalled",
    "number of runs that stood still and were ended",
    "replication.stalled",
  ),
  tandem(
    "replications.rotated",
    "number of runs asked to give their slot up",
    "replication.rotated",
    ({ stopped }) => stopped,
  ),
  tandem(
    "replications.refused_revisions",
    "number of revisions that a target refused",
    "replication.refused",
  ),
  tandem("replications.outages", "number of servers found to be away", "replication.outage"),
  tandem("http.retries", "number of requests to endpoints that were repeated", "http.retry"),
  tandem(
    "jobs.expired",
    "number of jobs requeued because they were silent",
    "jobs.expired",
    ({ jobCount }) => jobCount,
  ),
  tandem("workers.lost", "number of leases that this process lost", "jobs.worker-lost"),
  tandem(
    "workers.expelled",
    "number of workers whose lease was found lapsed",
    "jobs.worker-expelled",
  ),
  tandem("alerts.sent", "number of alerts that the receiver took", "alerts.sent"),
  tandem("alerts.failures", "number of attempts to send an alert that failed", "alerts.failed"),
  tandem("alerts.dropped", "number of alerts that were given up", "alerts.dropped"),
  tandem(
    "api.defects",
    "number of requests answered with an unexpected error",
    "api.request-failed",
  ),
  tandem("store.retries", "number of transactions that were tried again", "kv.retry"),
  tandem(
    "store.removed_keys",
    "number of keys that were removed in the background; of a deleted _replicator database, jobs",
    "kv.page-removed",
    ({ keyCount }) => keyCount,
  ),
  tandem(
    "store.removed_bytes",
    "number of bytes that were removed in the background",
    "kv.page-removed",
    ({ byteCount }) => byteCount,
  ),
  tandem(
    "services.failures",
    "number of failures of a part of the server that was started again",
    "service.failed",
  ),
];

/** Label cardinality must not depend on client input. */
function knownMethod(method: string): string {
  return ["GET", "HEAD", "PUT", "POST", "DELETE", "COPY", "OPTIONS"].includes(method)
    ? method
    : "OTHER";
}
