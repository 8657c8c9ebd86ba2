/** Settings of a node's replicator, mostly with CouchDB 4's names and defaults. */

import { REPLICATION_OPTIONS_DEFAULT, type ReplicationOptions } from "../contract/index.ts";
import {
  GRANT_SETTINGS_DEFAULT,
  type GrantSettings,
  type TlsSettings,
} from "../http-client/index.ts";
import { FAIR_SHARE_DEFAULT, type FairShare } from "../jobs/index.ts";

/** Settings for requests to servers. */
export interface ClientSettings extends GrantSettings {
  /** `request_timeout`: maximum duration of requests other than changes feeds; can be infinite. */
  readonly requestTimeoutMs: number;
  /** Whether passwords are exchanged for session cookies: `auth_plugins` contains `session`. */
  readonly usesSessions: boolean;
}

/** Limits for individual documents. */
export interface CopyLimits {
  /** `max_document_id_length` in bytes: documents with longer ids are listed as failures. */
  readonly documentIdBytesMax: number;
  /** `missing_doc_retry_msec`: pause before requesting a missing revision again. */
  readonly missingDocumentPauseMs: number;
}

/** URL schemes allowed in documents and bodies. */
export interface Protocols {
  /** Schemes of endpoints (`valid_endpoint_protocols`). */
  readonly endpoint: readonly string[];
  /** Schemes of proxies (`valid_proxy_protocols`). */
  readonly proxy: readonly string[];
}

export interface ReplicatorConfig {
  /** `max_jobs`: maximum number of jobs running on a node. */
  readonly jobsMax: number;
  /**
   * `interval_sec`: length of a scheduler cycle. At its end, jobs can be stopped to free their
   * slots.
   */
  readonly intervalSec: number;
  /** `max_churn`: maximum number of jobs stopped in favour of other jobs, per cycle and node. */
  readonly churnMax: number;
  /** `min_run_time_sec`: minimum time a job keeps its slot. */
  readonly runSecMin: number;
  /** `startup_jitter`: maximum random delay of jobs that are accepted together (CouchDB: 5 s). */
  readonly startupJitterMs: number;
  /** Minimum pause after a failure (`min_backoff_penalty_sec`). */
  readonly penaltySecMin: number;
  /**
   * Maximum pause after a failure (`max_backoff_penalty_sec`). With CouchDB's default of two days,
   * a job would appear to be dead.
   */
  readonly penaltySecMax: number;
  /** `health_threshold_sec`: run time after which earlier failures are cleared. */
  readonly healthThresholdSec: number;
  /**
   * `worker_lease_sec`: duration of a node's lease. A node that does not renew its lease within
   * this time loses all of its jobs. Not in CouchDB.
   */
  readonly workerLeaseSec: number;
  /** `activity_timeout_sec`: time without a heartbeat after which a job is requeued. */
  readonly activityTimeoutSec: number;
  /** `transient_job_max_age_sec`: how long finished transient jobs are kept. */
  readonly transientJobAgeSecMax: number;
  /**
   * `abandoned_max_age_sec`: how long lists of failures and local checkpoints are kept without a
   * job.
   */
  readonly abandonedSecMax: number;
  /**
   * `event_max_age_sec`: how long events are kept. Routine events are kept for at most 15 minutes.
   */
  readonly eventAgeSecMax: number;
  /** `event_max_bytes`: maximum total size of the events older than 15 minutes. */
  readonly eventBytesMax: number;
  /** `usage_coeff` and `fair_share_interval_sec` (RFC 017). */
  readonly fairShare: FairShare;
  /**
   * `[replicator.shares]`: shares by `_replicator` database, `rule:NAME` or user name; 100 by
   * default.
   */
  readonly shares: ReadonlyMap<string, number>;
  /** `stall_timeout_sec`: time without progress after which a run is restarted. Not in CouchDB. */
  readonly stallTimeoutSec: number;
  /** `connection_close_interval`: how long an unused connection is kept. */
  readonly connectionCloseMs: number;
  /** `verify_ssl_certificates` and related settings. CouchDB does not verify by default. */
  readonly tls: TlsSettings;
  /** `max_history`: events kept per job, not counting `pending`. */
  readonly historyLengthMax: number;
  /** `stats_update_interval_sec`: interval for storing a job's statistics (CouchDB: 10 s). */
  readonly statisticsIntervalSec: number;
  /**
   * `lag_interval_sec`: minimum interval between requests to the source of a job that is not
   * running.
   */
  readonly lagIntervalSec: number;
  /** `park_after_sec`: idle time after which a caught-up job yields its slot; 0 for never. */
  readonly parkAfterSec: number;
  /** `audit_interval_sec`: maximum parking time, ±10 %, after which both databases are checked. */
  readonly auditIntervalSec: number;
  /**
   * `valid_endpoint_protocols_log`, `verify_ssl_certificates_log`: whether insecure jobs are
   * logged.
   */
  readonly warnsOf: { readonly plainHttp: boolean; readonly unverifiedTls: boolean };
  readonly client: ClientSettings;
  readonly copyLimits: CopyLimits;
  readonly protocols: Protocols;
  /** Default options of a job. */
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
  eventAgeSecMax: 7 * 86_400,
  eventBytesMax: 64 * 1024 * 1024,
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
