/**
 * The settings of a node's replicator. Names and defaults are CouchDB 4's `[replicator]`, except where a comment gives
 * a reason.
 */

import { REPLICATION_OPTIONS_DEFAULT, type ReplicationOptions } from "../contract/index.ts";
import {
  GRANT_SETTINGS_DEFAULT,
  type GrantSettings,
  type TlsSettings,
} from "../http-client/index.ts";
import { FAIR_SHARE_DEFAULT, type FairShare } from "../jobs/index.ts";

/** How a node speaks to servers. */
export interface ClientSettings extends GrantSettings {
  /** `request_timeout`: how long a request may take as a whole, but one for changes; infinite: no limit. */
  readonly requestTimeoutMs: number;
  /** `auth_plugins` names `session`: a password is exchanged for a cookie. Otherwise it goes with each request. */
  readonly usesSessions: boolean;
}

/** What a run may do with a document that does not come easily. */
export interface CopyLimits {
  /** `max_document_id_length`, in bytes: a document with a longer id is listed as a failure, and passed. */
  readonly documentIdBytesMax: number;
  /** `missing_doc_retry_msec`: how long to wait before a revision is asked for again that was announced and not found. */
  readonly missingDocumentPauseMs: number;
}

/** Schemes of URLs that documents and bodies may use. */
export interface Protocols {
  /** `valid_endpoint_protocols`. */
  readonly endpoint: readonly string[];
  /** `valid_proxy_protocols`. */
  readonly proxy: readonly string[];
}

export interface ReplicatorConfig {
  /** `max_jobs`: jobs that a node runs at once. */
  readonly jobsMax: number;
  /** `interval_sec`: one cycle of the scheduler, in which it is decided which jobs give their slots up. */
  readonly intervalSec: number;
  /** `max_churn`: jobs that a node stops for others in one cycle, at most. */
  readonly churnMax: number;
  /** `min_run_time_sec`: how long a job keeps its slot at least. */
  readonly runSecMin: number;
  /** `startup_jitter`: jobs that were accepted together begin within this time. CouchDB: 5 s, which a queue does not need. */
  readonly startupJitterMs: number;
  /** `min_backoff_penalty_sec`. */
  readonly penaltySecMin: number;
  /** `max_backoff_penalty_sec`. CouchDB: two days, which an operator sees as a dead job after an outage. */
  readonly penaltySecMax: number;
  /** `health_threshold_sec`: a run that lasted longer makes earlier failures forgotten. */
  readonly healthThresholdSec: number;
  /** `worker_lease_sec`: silence after which a node has lost all its jobs. CouchDB has no counterpart. */
  readonly workerLeaseSec: number;
  /** `activity_timeout_sec`: silence after which a single job is taken from a node that lives. What the queue has counts for all. */
  readonly activityTimeoutSec: number;
  /** `transient_job_max_age_sec`: how long a finished transient job can be looked at. */
  readonly transientJobAgeSecMax: number;
  /** `abandoned_max_age_sec`: how long failures and our own checkpoints are kept when their last job is gone. */
  readonly abandonedSecMax: number;
  /** `event_max_age_sec`: for how long who follows events may be away without missing one. */
  readonly eventAgeSecMax: number;
  /** `usage_coeff` and `fair_share_interval_sec` (RFC 017). */
  readonly fairShare: FairShare;
  /**
   * `[replicator.shares]`: by the name of a `_replicator` database, `rule:` and that of a rule, or a user for transient jobs; 100 where
   * none is given.
   */
  readonly shares: ReadonlyMap<string, number>;
  /** `stall_timeout_sec`: how long a run may make no progress before it is started again. CouchDB has no counterpart. */
  readonly stallTimeoutSec: number;
  /** `connection_close_interval`: how long an unused connection is kept. */
  readonly connectionCloseMs: number;
  /** `verify_ssl_certificates` and the names beside it. CouchDB does not verify unless it is told to. */
  readonly tls: TlsSettings;
  /** `max_history`: events that a job remembers, without `pending`. */
  readonly historyLengthMax: number;
  /** `stats_update_interval_sec`: how often the figures of a job that copies are stored. CouchDB: 10 s. */
  readonly statisticsIntervalSec: number;
  /** `lag_interval_sec`: how often the source of a job that waits or is paused is asked how much is to come, at most. */
  readonly lagIntervalSec: number;
  /** `park_after_sec`: a continuous job that has caught up and is quiet for so long gives up its slot; 0: never. */
  readonly parkAfterSec: number;
  /** `audit_interval_sec`: how long a job stays parked at most, a tenth less or more; then it looks at both databases. */
  readonly auditIntervalSec: number;
  /** `valid_endpoint_protocols_log` and `verify_ssl_certificates_log`: say it when a job does not use TLS, or does not verify. */
  readonly warnsOf: { readonly plainHttp: boolean; readonly unverifiedTls: boolean };
  readonly client: ClientSettings;
  readonly copyLimits: CopyLimits;
  readonly protocols: Protocols;
  /** Defaults of each job. */
  readonly options: ReplicationOptions;
}

export const TLS_DEFAULT = { verify: true, depthMax: 3 } as const satisfies TlsSettings;

export const CLIENT_SETTINGS_DEFAULT: ClientSettings = {
  requestTimeoutMs: Number.POSITIVE_INFINITY,
  usesSessions: true,
  ...GRANT_SETTINGS_DEFAULT,
};

export const COPY_LIMITS_DEFAULT: CopyLimits = {
  documentIdBytesMax: Number.POSITIVE_INFINITY,
  missingDocumentPauseMs: 2000,
};

export const PROTOCOLS_DEFAULT: Protocols = {
  endpoint: ["http", "https"],
  proxy: ["http", "https", "socks5"],
};

export const REPLICATOR_CONFIG_DEFAULT: ReplicatorConfig = {
  jobsMax: 500,
  intervalSec: 15,
  churnMax: 100,
  runSecMin: 60,
  startupJitterMs: 0,
  penaltySecMin: 2,
  penaltySecMax: 600,
  healthThresholdSec: 120,
  workerLeaseSec: 5,
  activityTimeoutSec: 61,
  transientJobAgeSecMax: 86_400,
  abandonedSecMax: 30 * 86_400,
  eventAgeSecMax: 900,
  fairShare: FAIR_SHARE_DEFAULT,
  shares: new Map(),
  stallTimeoutSec: 120,
  connectionCloseMs: 90_000,
  tls: TLS_DEFAULT,
  historyLengthMax: 20,
  statisticsIntervalSec: 1,
  lagIntervalSec: 60,
  parkAfterSec: 10,
  auditIntervalSec: 4 * 3600,
  warnsOf: { plainHttp: false, unverifiedTls: false },
  client: CLIENT_SETTINGS_DEFAULT,
  copyLimits: COPY_LIMITS_DEFAULT,
  protocols: PROTOCOLS_DEFAULT,
  options: REPLICATION_OPTIONS_DEFAULT,
};
