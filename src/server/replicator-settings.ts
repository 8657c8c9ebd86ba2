/** `[replicator]`, read live: CouchDB's names, and the units and defaults of `ReplicatorConfig`. */
import {
  REPLICATOR_CONFIG_DEFAULT,
  type ReplicationOptions,
  type ReplicatorConfig,
} from "../replicator/index.ts";
import {
  booleanSetting,
  integerSetting,
  liveSettings,
  type Setting,
  type SettingsOf,
  type SettingTexts,
  textSetting,
} from "./settings.ts";

const SECTION = "replicator";

const { options: OPTIONS_DEFAULT, tls: TLS_DEFAULT, ...DEFAULT } = REPLICATOR_CONFIG_DEFAULT;

const NODE_SETTINGS: SettingsOf<Omit<ReplicatorConfig, "options" | "tls">> = {
  jobsMax: integer("max_jobs", DEFAULT.jobsMax),
  penaltySecMin: integer("min_backoff_penalty_sec", DEFAULT.penaltySecMin),
  penaltySecMax: integer("max_backoff_penalty_sec", DEFAULT.penaltySecMax),
  healthThresholdSec: integer("health_threshold_sec", DEFAULT.healthThresholdSec),
  workerLeaseSec: integer("worker_lease_sec", DEFAULT.workerLeaseSec),
  activityTimeoutSec: integer("activity_timeout_sec", DEFAULT.activityTimeoutSec),
  transientJobAgeSecMax: integer("transient_job_max_age_sec", DEFAULT.transientJobAgeSecMax, 0),
  connectionCloseMs: integer("connection_close_interval", DEFAULT.connectionCloseMs),
};

const TLS_SETTINGS: SettingsOf<Required<ReplicatorConfig["tls"]>> = {
  verify: booleanSetting(SECTION, "verify_ssl_certificates", TLS_DEFAULT.verify),
  trustedCertificatesFile: textSetting(SECTION, "ssl_trusted_certificates_file", undefined),
  depthMax: integer("ssl_certificate_max_depth", TLS_DEFAULT.depthMax ?? 3, 0),
  certificateFile: textSetting(SECTION, "cert_file", undefined),
  keyFile: textSetting(SECTION, "key_file", undefined),
  password: textSetting(SECTION, "password", undefined),
};

const OPTION_SETTINGS: SettingsOf<ReplicationOptions> = {
  useCheckpoints: booleanSetting(SECTION, "use_checkpoints", OPTIONS_DEFAULT.useCheckpoints),
  checkpointIntervalMs: integer("checkpoint_interval", OPTIONS_DEFAULT.checkpointIntervalMs),
  workerProcesses: integer("worker_processes", OPTIONS_DEFAULT.workerProcesses),
  workerBatchSize: integer("worker_batch_size", OPTIONS_DEFAULT.workerBatchSize),
  httpConnections: integer("http_connections", OPTIONS_DEFAULT.httpConnections),
  connectionTimeoutMs: integer("connection_timeout", OPTIONS_DEFAULT.connectionTimeoutMs),
  retriesPerRequest: integer("retries_per_request", OPTIONS_DEFAULT.retriesPerRequest, 0),
  useBulkGet: booleanSetting(SECTION, "use_bulk_get", OPTIONS_DEFAULT.useBulkGet),
};

export const REPLICATOR_SETTINGS: readonly Setting<unknown>[] = [
  ...Object.values<Setting<unknown>>(NODE_SETTINGS),
  ...Object.values<Setting<unknown>>(TLS_SETTINGS),
  ...Object.values<Setting<unknown>>(OPTION_SETTINGS),
];

/** Members are read anew at each use, those of `tls` and `options` too. */
export function replicatorConfig(texts: SettingTexts): ReplicatorConfig {
  const config = liveSettings<Omit<ReplicatorConfig, "options" | "tls">>(texts, NODE_SETTINGS);
  return Object.assign(config, {
    tls: liveSettings(texts, TLS_SETTINGS),
    options: liveSettings(texts, OPTION_SETTINGS),
  });
}

function integer(key: string, fallback: number, min = 1): Setting<number> {
  return integerSetting(SECTION, key, fallback, { min });
}
