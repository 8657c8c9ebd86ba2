/**
 * All events of the program with their fields: the single stream consumed by the log, metrics and
 * tests. Fields are plain values and never contain secrets. `jobId` is the id of a job in the
 * queue, `documentId` the id of a document, `replicationId` the id of a replication.
 */
type Failure = { readonly jobId: string; readonly error: string; readonly reason: string };

/**
 * A command of an operator for a job. `why` is the stated reason; `requestId` is the id of the API
 * request, if any.
 */
type Decision = {
  readonly jobId: string;
  readonly userName: string | null;
  readonly why: string | undefined;
  readonly requestId: string | undefined;
  /** Id of the command, if it was for many jobs. */
  readonly command?: string | undefined;
};

export interface Events {
  /** An alert was discarded because its receiver had been unreachable for too long. */
  "alerts.dropped": {
    readonly alertId: string;
    readonly kind: string;
    readonly jobId: string;
    readonly count: number;
  };
  /**
   * The receiver rejected a message with `count` alerts (status 4xx). The message is not sent
   * again.
   */
  "alerts.rejected": {
    readonly alertId: string;
    readonly kind: string;
    readonly jobId: string;
    readonly count: number;
    readonly error: string;
  };
  /**
   * The receiver of alerts did not respond, or it rejected an alert. The alert is retried after the
   * pause.
   */
  "alerts.failed": {
    readonly alertId: string;
    readonly error: string;
    readonly failureCount: number;
    readonly pauseMs: number;
  };
  "alerts.sent": {
    readonly alertId: string;
    readonly kind: string;
    readonly status: string;
    readonly jobId: string;
    readonly count: number;
  };
  /** This node has become the sender of alerts for all nodes. */
  "alerts.turn-taken": Readonly<Record<string, never>>;
  /** A request was answered; `durationMs` is the time until the response began. */
  "api.answered": {
    readonly method: string;
    readonly path: string;
    readonly status: number;
    readonly durationMs: number;
  };
  /** A request failed with an internal error (status 500). */
  "api.request-failed": {
    readonly requestId: string;
    readonly method: string;
    readonly path: string;
    readonly code: string | undefined;
    readonly message: string;
    readonly stack: string | undefined;
  };
  /** Another process changed the local configuration file, and the new content is in effect. */
  "configuration.reloaded": Readonly<Record<string, never>>;
  /** A setting has no effect: a CouchDB setting that does not apply here, or a misspelt one. */
  "configuration.setting-ignored": {
    readonly section: string;
    readonly key: string;
    readonly message: string;
  };
  /** A replication process of this server has reported its counters. */
  "counts.reported": { readonly rowCount: number };
  /** Bodies of earlier revisions were deleted. */
  "databases.swept": { readonly database: string; readonly bodyCount: number };
  /** The policy of a database resolved a conflict. */
  "databases.conflict-resolved": {
    readonly database: string;
    readonly documentId: string;
    readonly resolve: string;
    readonly removedCount: number;
  };
  /** The policy of a database left a conflict unresolved. */
  "databases.conflict-left": {
    readonly database: string;
    readonly documentId: string;
    readonly reason: string;
  };
  /** Old tombstones were purged, or only counted in a dry run. */
  "databases.tombstones-purged": {
    readonly database: string;
    readonly documentCount: number;
    readonly isDryRun: boolean;
  };
  /** The code of a design document logged a message, by calling `log`. */
  "design.logged": { readonly codeId: string; readonly message: string };
  /** The server could not send a response completely. */
  "http.answer-failed": { readonly error: string };
  /** A request to an endpoint ended; without `status`, it received no response. */
  "http.answered": { readonly method: string; readonly status: number | undefined };
  "http.retry": { readonly method: string; readonly failureCount: number };
  /** Jobs were requeued because their workers missed heartbeats. */
  "jobs.expired": { readonly type: string; readonly jobCount: number };
  "jobs.groups-forgotten": { readonly forgottenCount: number };
  /** Jobs held by an expelled worker returned to the queue. */
  "jobs.worker-cleared": { readonly worker: string; readonly jobCount: number };
  "jobs.worker-expelled": {
    readonly worker: string;
    readonly node: string;
    readonly processId: string;
    readonly by: string;
  };
  /** This process lost its lease. */
  "jobs.worker-lost": Readonly<Record<string, unknown>>;
  "jobs.worker-registered": {
    readonly worker: string;
    readonly node: string;
    readonly processId: string;
  };
  /** A process announced that it runs jobs, registered again, or started or stopped draining. */
  "node.reported": { readonly id: string; readonly worker: string; readonly isDraining: boolean };
  /** A worker could not remove its registration. */
  "jobs.worker-vanished": { readonly worker: string; readonly error: string };
  "kv.available": { readonly engine: string; readonly waitedMs?: number };
  /** Writes are rejected because the disk is full. Emitted once per outage. */
  "kv.disk-full": { readonly directory: string; readonly reason: string };
  "kv.disk-has-room": { readonly directory: string };
  /**
   * Commits have been waiting for LMDB's write lock for `waitedMs`. The engine now tries to end the
   * wait.
   */
  "kv.lock-wait": { readonly waitedMs: number };
  /** One page of a background deletion was processed. */
  "kv.page-removed": {
    readonly kind: string;
    readonly keyCount: number;
    readonly byteCount: number;
  };
  /** A background deletion is complete. The counts cover the work of all nodes. */
  "kv.removed": {
    readonly kind: string;
    readonly subject: string;
    readonly keyCount: number;
    readonly byteCount: number;
  };
  "kv.unavailable": {
    readonly engine: string;
    readonly clusterFile?: string;
    readonly waitedMs?: number;
    readonly reason?: string;
  };
  "kv.retry": { readonly code: string | undefined; readonly attempt: number };
  /**
   * A run ended because of a store error. The job returns to the queue when its heartbeat is
   * overdue.
   */
  "replication.abandoned": { readonly jobId: string; readonly error: string };
  /** A transient job was added to the queue. */
  "replication.added": { readonly jobId: string; readonly requestId: string | undefined };
  "replication.accepted": { readonly jobId: string };
  /**
   * The number of pending changes was requested from the source of a waiting job. `pending` is
   * undefined if unknown.
   */
  "replication.backlog-asked": { readonly jobId: string; readonly pending: number | undefined };
  "replication.cancelled": Decision;
  "replication.checkpoint": { readonly source: string };
  /** An operator acted on a job. */
  "replication.controlled": Decision & { readonly action: string };
  /**
   * Documents written and bytes transferred by a run since the previous event of this type for the
   * run.
   */
  "replication.copied": {
    readonly jobId: string;
    readonly documentCount: number;
    readonly byteCount: number;
  };
  "replication.crashed": Failure & { readonly pauseSec: number };
  /** All jobs of a deleted `_replicator` database or rule were removed. */
  "replication.database-removed": { readonly uuid: string; readonly removedCount: number };
  /** A run ended; `state` is its outcome. */
  "replication.ended": { readonly jobId: string; readonly state: string };
  "replication.failed": Failure;
  /** A run lost its job and stopped writing. */
  "replication.halted": { readonly jobId: string };
  /**
   * Entries of the job index that disagreed with their jobs were repaired. Nodes of older versions
   * change jobs without updating the index.
   */
  "replication.index-repaired": { readonly repairedCount: number };
  "replication.last-checkpoint-failed": { readonly error: string };
  /** A login with a password or key was attempted. */
  "replication.login": { readonly origin: string; readonly verdict: string };
  /** A login was not attempted, so that the server does not lock the account. */
  "replication.login-gated": { readonly origin: string };
  /**
   * Revisions that had failed were written by a later attempt. `documentCount` is the number of
   * their documents.
   */
  "replication.mended": { readonly documentCount: number };
  "replication.not-charged": { readonly error: string };
  "replication.outage": { readonly origin: string };
  "replication.outage-over": { readonly origin: string };
  /** A caught-up job was parked: it no longer holds a slot while it waits for changes. */
  "replication.parked": { readonly jobId: string };
  /** A completed job and its document were deleted after `keep_finished_sec`. */
  "replication.forgotten": { readonly jobId: string };
  /**
   * A woken run starts over, because a database was re-created or restored and lacks the run's
   * checkpoint.
   */
  "replication.place-lost": { readonly source: string };
  "replication.plain-http": { readonly jobId: string; readonly url: string };
  /** A revision was added to the list of failures. */
  "replication.refused": {
    readonly documentId: string;
    readonly revision: string;
    readonly phase: string;
    readonly status: number | undefined;
    readonly error: string;
    readonly reason: string;
  };
  /** A run stored its statistics, which makes them visible to all nodes. */
  "replication.reported": { readonly jobId: string };
  "replication.retry-failed": Failure;
  /** The databases at a rule's source were listed, and the rule's jobs updated. */
  "replication.rule-listed": { readonly rule: string };
  /** The databases of a rule's source could not be listed. The listing is retried after a pause. */
  "replication.rule-lost": { readonly rule: string; readonly error: string };
  "replication.rule-put": { readonly rule: string; readonly userName: string | null };
  "replication.rule-removed": { readonly rule: string; readonly userName: string | null };
  /** Jobs were asked to yield their slots. */
  "replication.rotated": { readonly stopped: number; readonly waiting: number };
  /** The first build of an index failed; it is retried after a pause. */
  "index.build-failed": {
    readonly database: string;
    readonly design: string;
    readonly error: string;
  };
  /** The answer to a question of an API-only node could not be stored. */
  "replication.question-lost": { readonly error: string };
  "replication.command-failed": {
    readonly command: string;
    readonly requestId: string | undefined;
    readonly error: string;
  };
  /** The jobs whose `after` names job `name` could not be released. The release is retried. */
  "replication.release-failed": { readonly name: string; readonly error: string };
  /** The watcher of a source lost its connection; it reconnects after a pause. */
  "replication.source-lost": { readonly source: string; readonly error: string };
  /** How sources of parked jobs are watched: by the server's feed, or by polling. */
  "replication.source-watched": { readonly source: string; readonly by: string };
  "replication.stalled": {
    readonly jobId: string;
    readonly stallCount: number;
    readonly reason: string;
  };
  "replication.started": {
    readonly jobId: string;
    readonly replicationId: string;
    /**
     * Whether the previous run did not fail, that is, ended because the job was parked or stopped.
     */
    readonly hasSucceeded: boolean;
  };
  /** Parked jobs whose sources have changed were scheduled. */
  "replication.woken": { readonly source: string; readonly jobCount: number };
  "replication.unverified-tls": { readonly jobId: string; readonly url: string };
  /** Secrets are now sealed with another key. */
  "secrets.key-changed": { readonly keyId: string };
  /** Another node seals secrets with a key that this node lacks. */
  "secrets.key-missing": { readonly keyId: string };
  /** All secrets in the store are sealed with the newest key. */
  "secrets.rotated": { readonly keyId: string; readonly renewedCount: number };
  /** A session secret changed on a node of the store, or is no longer accepted. */
  "sessions.secrets-changed": { readonly acceptedCount: number };
  /** A service failed. It is restarted after a pause. */
  "service.failed": {
    readonly service: string;
    readonly error: string;
    readonly pauseMs: number;
  };
  /** A format of the store was enabled (`docs/upgrading.md`). */
  "store.format-enabled": { readonly format: number };
  /** The files of `[ssl]` have changed, and new connections use them. */
  "tls.certificates-read": Readonly<Record<string, never>>;
  /** The files of `[ssl]` have changed but are invalid; the previous ones stay in use. */
  "tls.certificates-refused": { readonly error: string };
  /** The database of a user (`[couch_peruser]`) was created. */
  "users.database-created": { readonly database: string };
  /** The database of a deleted user was deleted. */
  "users.database-deleted": { readonly database: string };
  /** The database of a user was not created, because its name would be invalid. */
  "users.database-refused": { readonly database: string };
  /**
   * A login was refused after too many wrong passwords. With `mode` "warn", a login that would be
   * refused is only logged.
   */
  "users.login-refused": { readonly name: string; readonly peer: string; readonly mode: string };
}

export type EventName = keyof Events;
