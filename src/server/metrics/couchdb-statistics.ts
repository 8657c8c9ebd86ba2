/**
 * CouchDB's statistics that Tandem does not count. They are shown with a fixed value, usually 0,
 * and with CouchDB's descriptions, because programs that read `_stats` expect all of them. The
 * statistics that Tandem counts are in `metric-table.ts`.
 */

export interface FixedStatistic {
  readonly path: readonly string[];
  readonly type: "counter" | "gauge";
  readonly description: string;
  readonly value: number;
  /** Set if CouchDB's `_prometheus` shows the last path segment as a label. */
  readonly prometheus?: { readonly name: string; readonly label: string };
}

/** Counters that Tandem does not count, with CouchDB's descriptions, by path. */
const COUNTED_ELSEWHERE: Readonly<Record<string, string>> = {
  "couchdb.auth_cache_hits": "number of authentication cache hits",
  "couchdb.auth_cache_misses": "number of authentication cache misses",
  "couchdb.database_reads": "number of times a document was read from a database",
  "couchdb.database_writes": "number of times a database was changed",
  "couchdb.open_databases": "number of open databases",
  "couchdb.open_os_files": "number of file descriptors CouchDB has open",
  "couchdb.document_inserts": "number of documents inserted",
  "couchdb.document_writes": "number of document write operations",
  "couchdb.local_document_writes": "number of _local document write operations",
  "couchdb.httpd.aborted_requests": "number of aborted requests",
  "couchdb.httpd.bulk_requests": "number of bulk requests",
  "couchdb.httpd.clients_requesting_changes": "number of clients for continuous _changes",
  "couchdb.httpd.temporary_view_reads": "number of temporary view reads",
  "couchdb.httpd.view_reads": "number of view reads",
  "couch_replicator.changes_read_failures": "number of failed replicator changes read failures",
  "couch_replicator.changes_reader_deaths": "number of failed replicator changes readers",
  "couch_replicator.changes_manager_deaths": "number of failed replicator changes managers",
  "couch_replicator.changes_queue_deaths": "number of failed replicator changes work queues",
  "couch_replicator.failed_starts": "number of replications that have failed to start",
  "couch_replicator.stream_responses.success":
    "number of successful streaming HTTP responses received by the replicator",
  "couch_replicator.stream_responses.failure":
    "number of failed streaming HTTP responses received by the replicator",
  "couch_replicator.worker_deaths": "number of failed replicator workers",
  "couch_replicator.workers_started": "number of replicator workers started",
  "couch_replicator.db_scans": "number of times replicator db scans have been started",
  "couch_replicator.docs.dbs_created":
    "number of db shard creations seen by replicator doc processor",
  "couch_replicator.docs.dbs_deleted":
    "number of db shard deletions seen by replicator doc processor",
  "couch_replicator.docs.dbs_found": "number of db shard found by replicator doc processor",
  "couch_replicator.docs.db_changes": "number of db changes processed by replicator doc processor",
  "couch_replicator.docs.dbs_changes": "number of db changes processed by replicator doc processor",
  "couch_replicator.docs.failed_state_updates": "number of 'failed' state document updates",
  "couch_replicator.docs.completed_state_updates": "number of 'completed' state document updates",
  "couch_replicator.jobs.adds": "number of jobs added to replicator scheduler",
  "couch_replicator.jobs.duplicate_adds": "number of duplicate jobs added to replicator scheduler",
  "couch_replicator.jobs.removes": "number of jobs removed from replicator scheduler",
  "couch_replicator.connection.acquires": "number of times connections are shared",
  "couch_replicator.connection.creates": "number of connections created",
  "couch_replicator.connection.releases": "number of times ownership of a connection is released",
  "couch_replicator.connection.owner_crashes":
    "number of times a connection owner crashes while owning at least one connection",
  "couch_replicator.connection.worker_crashes": "number of times a worker unexpectedly terminates",
  "couch_replicator.connection.closes": "number of times a worker is gracefully shut down",
  "fabric.worker.timeout": "number of worker timeouts",
  "fabric.worker.timeouts": "number of worker timeouts",
  "fabric.open_shard.timeout": "number of open shard timeouts",
  "fabric.open_shard.timeouts": "number of open shard timeouts",
  "fabric.read_repairs.success": "number of successful read repair operations",
  "fabric.read_repairs.failure": "number of failed read repair operations",
  "fabric.doc_update.errors": "number of document update errors",
  "fabric.doc_update.mismatched_errors":
    "number of document update errors with multiple error types",
  "fabric.doc_update.write_quorum_errors": "number of write quorum errors",
  "mango.unindexed_queries": "number of mango queries that could not use an index",
  "mango.query_invalid_index": "number of mango queries that generated an invalid index warning",
  "mango.too_many_docs_scanned": "number of mango queries that generated an index scan warning",
  "mango.docs_examined": "number of documents examined by mango queries coordinated by this node",
  "mango.quorum_docs_examined":
    "number of documents examined by mango queries, using cluster quorum",
  "mango.results_returned": "number of rows returned by mango queries",
  "mango.evaluate_selector": "number of mango selector evaluations",
};

const LOG_LEVELS = [
  "alert",
  "critical",
  "debug",
  "emergency",
  "error",
  "info",
  "notice",
  "warning",
];

const COUNTERS: readonly FixedStatistic[] = Object.entries(COUNTED_ELSEWHERE).map(
  ([path, description]) => ({ path: path.split("."), type: "counter", description, value: 0 }),
);

export const FIXED_STATISTICS: readonly FixedStatistic[] = [
  ...COUNTERS,
  ...LOG_LEVELS.map(
    (level): FixedStatistic => ({
      path: ["couch_log", "level", level],
      type: "counter",
      description: `number of logged ${level} messages`,
      value: 0,
      prometheus: { name: "couchdb_couch_log_requests_total", label: "level" },
    }),
  ),
  {
    path: ["couch_replicator", "cluster_is_stable"],
    type: "gauge",
    description: "1 if cluster is stable, 0 if unstable",
    value: 1,
  },
];

/** Methods whose counters are shown even before the first request. */
export const COUNTED_METHODS: readonly string[] = [
  "COPY",
  "DELETE",
  "GET",
  "HEAD",
  "OPTIONS",
  "POST",
  "PUT",
];
export const COUNTED_STATUSES: readonly string[] = [
  ..."200 201 202 204 206 301 302 304 400 401 403 404 405 406 409 412 413 414 415 416 417 500 501".split(
    " ",
  ),
];
