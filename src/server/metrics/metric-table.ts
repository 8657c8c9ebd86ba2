/**
 * The counters, each with the traced event that it counts. Metrics that also exist in CouchDB have
 * CouchDB's names (`couch_replicator.jobs.crashes` in `_stats`,
 * `couchdb_couch_replicator_jobs_crashes_total` in `_prometheus`). The names of all other metrics
 * begin with `tandem`.
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
  /** Amount added per event; 0 if the event does not count. Default: 1. */
  amount?(fields: Events[EventName]): number;
  /** Value of `label` for an event. */
  labelOf?(fields: Events[EventName]): string;
}

const isFailure = ({ status }: Events["http.answered"]): boolean =>
  status === undefined || status >= 400;

const rowsOf =
  (group: string) =>
  <Name extends EventName>(
    path: string,
    description: string,
    event: Name,
    amount?: (fields: Events[Name]) => number,
  ): CounterRow => ({
    path: [group, ...path.split(".")],
    description,
    event,
    ...(amount === undefined ? {} : { amount }),
  });

const replicator = rowsOf("couch_replicator");
const tandem = rowsOf("tandem");

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
  {
    path: ["auto_purge", "purge"],
    description: "number of deleted documents purged because of their age",
    event: "databases.tombstones-purged",
    amount: ({ documentCount, isDryRun }: Events["databases.tombstones-purged"]) =>
      isDryRun ? 0 : documentCount,
  },
  {
    path: ["tandem", "conflicts", "resolved"],
    name: "tandem_conflicts_resolved",
    description: "number of conflicts resolved by a policy",
    event: "databases.conflict-resolved",
    label: "resolve",
    labelOf: ({ resolve }: Events["databases.conflict-resolved"]) => resolve,
  },
  tandem(
    "conflicts.left",
    "number of times that the policy of a database left a conflict unresolved",
    "databases.conflict-left",
  ),
  replicator(
    "jobs.accepts",
    "number of jobs that this process acquired from the queue",
    "replication.accepted",
  ),
  replicator("jobs.starts", "number of replications started", "replication.started"),
  replicator(
    "jobs.stops",
    "number of runs that ended and returned their job to the queue",
    "replication.ended",
    ({ state }) => Number(state === "pending"),
  ),
  replicator("jobs.crashes", "number of runs that crashed", "replication.crashed"),
  replicator("checkpoints.success", "number of checkpoints written", "replication.checkpoint"),
  replicator(
    "checkpoints.failure",
    "number of failed final checkpoints",
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
  {
    path: ["tandem", "logins", "attempts"],
    name: "tandem_logins_attempts",
    description: "number of logins at other servers by their outcome",
    event: "replication.login",
    label: "verdict",
    labelOf: ({ verdict }: Events["replication.login"]) => verdict,
  },
  tandem(
    "logins.deferred",
    "number of logins delayed so that servers do not lock the accounts",
    "replication.login-gated",
  ),
  tandem(
    "replications.completed",
    "number of replications that completed",
    "replication.ended",
    ({ state }) => Number(state === "completed"),
  ),
  tandem(
    "replications.failed",
    "number of replications that failed permanently",
    "replication.failed",
  ),
  tandem(
    "replications.halted",
    "number of runs that lost their lease and stopped writing",
    "replication.halted",
  ),
  tandem(
    "replications.stalled",
    "number of runs ended because they stalled",
    "replication.stalled",
  ),
  tandem(
    "replications.rotated",
    "number of runs that were asked to give up their slot",
    "replication.rotated",
    ({ stopped }) => stopped,
  ),
  tandem(
    "replications.copied_documents",
    "number of documents written to targets",
    "replication.copied",
    ({ documentCount }) => documentCount,
  ),
  tandem(
    "replications.copied_bytes",
    "number of bytes of bodies exchanged with other servers",
    "replication.copied",
    ({ byteCount }) => byteCount,
  ),
  tandem(
    "replications.refused_revisions",
    "number of revisions that a target refused",
    "replication.refused",
  ),
  tandem(
    "replications.outages",
    "number of times a server was found unreachable",
    "replication.outage",
  ),
  tandem("http.retries", "number of retried requests to endpoints", "http.retry"),
  tandem(
    "jobs.expired",
    "number of jobs requeued because their heartbeats stopped",
    "jobs.expired",
    ({ jobCount }) => jobCount,
  ),
  tandem("workers.lost", "number of leases that this process lost", "jobs.worker-lost"),
  tandem(
    "workers.expelled",
    "number of workers whose lease was found expired",
    "jobs.worker-expelled",
  ),
  tandem("alerts.sent", "number of alerts that the receiver accepted", "alerts.sent"),
  tandem("alerts.failures", "number of failed attempts to send an alert", "alerts.failed"),
  tandem("alerts.dropped", "number of alert messages that were abandoned", "alerts.dropped"),
  tandem(
    "alerts.rejected",
    "number of alert messages that the receiver rejected (4xx)",
    "alerts.rejected",
  ),
  tandem(
    "api.defects",
    "number of requests answered with an unexpected error",
    "api.request-failed",
  ),
  tandem("store.retries", "number of retried transactions", "kv.retry"),
  tandem(
    "store.removed_keys",
    "number of keys removed in the background; for a deleted _replicator database, the number of its jobs",
    "kv.page-removed",
    ({ keyCount }) => keyCount,
  ),
  tandem(
    "store.removed_bytes",
    "number of bytes removed in the background",
    "kv.page-removed",
    ({ byteCount }) => byteCount,
  ),
  tandem(
    "services.failures",
    "number of restarts of a part of the server after a failure",
    "service.failed",
  ),
];

/** Label cardinality must not depend on client input. */
function knownMethod(method: string): string {
  return ["GET", "HEAD", "PUT", "POST", "DELETE", "COPY", "OPTIONS"].includes(method)
    ? method
    : "OTHER";
}
