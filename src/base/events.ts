/**
 * Every event that the program announces, with its members: one stream that the log, metrics and tests follow. Members
 * are plain values and never hold secrets. `jobId` is a job's id in the queue, `documentId` a document's,
 * `replicationId` a replication's.
 */
type Failure = { readonly jobId: string; readonly error: string; readonly reason: string };

/** `why`: what who decided gave as a reason. `requestId`: of the request of the API, if it came with one. */
type Decision = {
  readonly jobId: string;
  readonly userName: string | null;
  readonly why: string | undefined;
  readonly requestId: string | undefined;
};

export interface Events {
  /** The receiver has not been told for so long that the alert is given up. */
  "alerts.dropped": { readonly alertId: string; readonly kind: string; readonly jobId: string };
  /** The receiver of alerts did not answer, or did not take one. It is tried again after the pause. */
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
  };
  /** This node sends the alerts of all nodes from now on. */
  "alerts.turn-taken": Readonly<Record<string, never>>;
  /** A request was answered; `durationMs` until the answer began. */
  "api.answered": {
    readonly method: string;
    readonly path: string;
    readonly status: number;
    readonly durationMs: number;
  };
  /** A request could not be answered, and the client was told 500. */
  "api.request-failed": {
    readonly requestId: string;
    readonly method: string;
    readonly path: string;
    readonly code: string | undefined;
    readonly message: string;
    readonly stack: string | undefined;
  };
  /** Another process changed the local configuration file, and its content is in force. */
  "configuration.reloaded": Readonly<Record<string, never>>;
  /** A setting is set that changes nothing: one of CouchDB that there is no use for, or a misspelt one. */
  "configuration.setting-ignored": {
    readonly section: string;
    readonly key: string;
    readonly message: string;
  };
  /** A replication process of this server told what it counted. */
  "counts.told": { readonly rowCount: number };
  /** Bodies that earlier revisions had were cleared. */
  "databases.swept": { readonly database: string; readonly bodyCount: number };
  /** A function of a design document wrote to the log. */
  "design.logged": { readonly codeId: string; readonly message: string };
  /** An answer could not be sent to its end. */
  "http.answer-failed": { readonly error: string };
  /** An endpoint answered; without a status it did not. */
  "http.answered": { readonly method: string; readonly status: number | undefined };
  "http.retry": { readonly method: string; readonly failureCount: number };
  /** Jobs were taken from holders that showed no sign of life. */
  "jobs.expired": { readonly type: string; readonly jobCount: number };
  "jobs.groups-forgotten": { readonly forgottenCount: number };
  /** What an expelled worker held is back in the queue. */
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
  /** A process told the others that it runs jobs, as another worker than before, or that it drains or works again. */
  "node.reported": { readonly id: string; readonly worker: string; readonly isDraining: boolean };
  /** A worker could not strike itself off. */
  "jobs.worker-vanished": { readonly worker: string; readonly error: string };
  "kv.available": { readonly engine: string; readonly waitedMs?: number };
  /** Writes are refused for want of room. Announced once, until there is room again. */
  "kv.disk-full": { readonly directory: string; readonly reason: string };
  "kv.disk-has-room": { readonly directory: string };
  /** Commits have waited so long for LMDB's lock, and the engine sees to it that the wait is not in vain. */
  "kv.lock-wait": { readonly waitedMs: number };
  /** One page of a removal in the background. */
  "kv.page-removed": {
    readonly kind: string;
    readonly keyCount: number;
    readonly byteCount: number;
  };
  /** A removal in the background is complete; counts over all nodes. */
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
  /** The store failed a run: the queue finds its job by its silence. */
  "replication.abandoned": { readonly jobId: string; readonly error: string };
  /** A transient job was put into the queue. */
  "replication.added": { readonly jobId: string; readonly requestId: string | undefined };
  "replication.accepted": { readonly jobId: string };
  /** The source of a job that waits was asked how much is to come; `pending` is undefined when it did not say. */
  "replication.backlog-asked": { readonly jobId: string; readonly pending: number | undefined };
  "replication.cancelled": Decision;
  "replication.checkpoint": { readonly source: string };
  /** An operator decided something about a job. */
  "replication.controlled": Decision & { readonly action: string };
  /** A run has written so many documents since it said so last. */
  "replication.copied": { readonly jobId: string; readonly documentCount: number };
  "replication.crashed": Failure & { readonly pauseSec: number };
  /** All jobs of a `_replicator` database or a rule that was deleted are removed. */
  "replication.database-removed": { readonly uuid: string; readonly removedCount: number };
  /** `state`: what became of the run. */
  "replication.ended": { readonly jobId: string; readonly state: string };
  "replication.failed": Failure;
  /** A run lost its job, and writes nothing more. */
  "replication.halted": { readonly jobId: string };
  /** The index of jobs did not agree with so many jobs, which nodes of older versions had changed. */
  "replication.index-repaired": { readonly repairedCount: number };
  "replication.last-checkpoint-failed": { readonly error: string };
  /** Revisions of so many documents on the list of failures arrived. */
  "replication.mended": { readonly documentCount: number };
  "replication.not-charged": { readonly error: string };
  "replication.outage": { readonly origin: string };
  "replication.outage-over": { readonly origin: string };
  /** A job has caught up and is quiet: it waits without a slot. */
  "replication.parked": { readonly jobId: string };
  /** A job that completed long enough ago, with its document (`keep_finished_sec`). */
  "replication.forgotten": { readonly jobId: string };
  /** A woken run went on from a place of which the databases know nothing: they were made again, or put back. It begins again. */
  "replication.place-lost": { readonly source: string };
  "replication.plain-http": { readonly jobId: string; readonly url: string };
  /** A revision was put on the list of failures. */
  "replication.refused": {
    readonly documentId: string;
    readonly revision: string;
    readonly phase: string;
    readonly status: number | undefined;
    readonly error: string;
    readonly reason: string;
  };
  /** A run stored its figures: everybody can see them from now on. */
  "replication.reported": { readonly jobId: string };
  "replication.retry-failed": Failure;
  /** The databases of a rule's source were listed, and their jobs are as the rule says. */
  "replication.rule-listed": { readonly rule: string };
  /** The source of a rule could not be listed; it is tried again after a pause. */
  "replication.rule-lost": { readonly rule: string; readonly error: string };
  "replication.rule-put": { readonly rule: string; readonly userName: string | null };
  "replication.rule-removed": { readonly rule: string; readonly userName: string | null };
  /** Jobs were asked to give their slots to others. */
  "replication.rotated": { readonly stopped: number; readonly waiting: number };
  /** The first build of an index has failed; it is tried again after a pause. */
  "index.build-failed": {
    readonly database: string;
    readonly design: string;
    readonly error: string;
  };
  /** The answer to a question of another node could not be stored. */
  "replication.question-lost": { readonly error: string };
  /** The watcher of a source has lost it; it tries again after a pause. */
  "replication.source-lost": { readonly source: string; readonly error: string };
  /** How the sources of parked jobs are watched: by the server's feed, or by asking for their update sequences. */
  "replication.source-watched": { readonly source: string; readonly by: string };
  "replication.stalled": {
    readonly jobId: string;
    readonly stallCount: number;
    readonly reason: string;
  };
  "replication.started": { readonly jobId: string; readonly replicationId: string };
  /** Parked jobs whose sources have changed are due. */
  "replication.woken": { readonly source: string; readonly jobCount: number };
  "replication.unverified-tls": { readonly jobId: string; readonly url: string };
  /** Another key seals secrets from now on. */
  "secrets.key-changed": { readonly keyId: string };
  /** Another node seals secrets with a key that this one lacks. */
  "secrets.key-missing": { readonly keyId: string };
  /** All secrets of the store are sealed with the newest key. */
  "secrets.rotated": { readonly keyId: string; readonly renewedCount: number };
  /** A service failed, and is started again after a pause. */
  "service.failed": {
    readonly service: string;
    readonly error: string;
    readonly pauseMs: number;
  };
  /** The files of `[ssl]` have changed, and new connections use them. */
  "tls.certificates-read": Readonly<Record<string, never>>;
  /** They have changed and cannot be used: those from before count. */
  "tls.certificates-refused": { readonly error: string };
  /** The database of a user, which `[couch_peruser]` asks for. Refused is a name that no database can have. */
  "users.database-created": { readonly database: string };
  "users.database-deleted": { readonly database: string };
  "users.database-refused": { readonly database: string };
  /** A login was refused, or with `mode` "warn" would have been: the password was wrong too often. */
  "users.login-refused": { readonly name: string; readonly peer: string; readonly mode: string };
}

export type EventName = keyof Events;
