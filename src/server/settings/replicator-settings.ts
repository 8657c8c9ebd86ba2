/** `[replicator]`, read live: CouchDB's names, and the units and defaults of `ReplicatorConfig`. */
import { type FairShare, SHARES_DEFAULT, SHARES_MAX, SHARES_MIN } from "../../jobs/index.ts";
import {
  FAR_BOUNDS,
  type Option,
  REPLICATION_OPTIONS,
  REPLICATOR_CONFIG_DEFAULT,
  type ReplicationOptions,
  type ReplicatorConfig,
} from "../../replicator/index.ts";
import {
  booleanSetting,
  choiceSetting,
  coefficientSetting,
  integerSetting,
  listSetting,
  liveSettings,
  type Setting,
  type SettingsOf,
  type SettingTexts,
  textSetting,
  unusable,
} from "./settings.ts";

export const REPLICATOR_SECTION = "replicator";
export const SHARES_SECTION = "replicator.shares";

const {
  tls: TLS_DEFAULT,
  fairShare: FAIR_SHARE,
  client: CLIENT_DEFAULT,
  copyLimits: LIMITS_DEFAULT,
  protocols: PROTOCOLS_DEFAULT,
  ...DEFAULT
} = REPLICATOR_CONFIG_DEFAULT;

type NodeConfig = Omit<
  ReplicatorConfig,
  "options" | "tls" | "fairShare" | "shares" | "client" | "copyLimits" | "protocols" | "warnsOf"
>;

const NODE_SETTINGS: SettingsOf<NodeConfig> = {
  jobsMax: integer("max_jobs", DEFAULT.jobsMax, 0),
  intervalSec: integer("interval_sec", DEFAULT.intervalSec),
  churnMax: integer("max_churn", DEFAULT.churnMax, 0),
  runSecMin: integer("min_run_time_sec", DEFAULT.runSecMin, 0),
  startupJitterMs: integer("startup_jitter", DEFAULT.startupJitterMs, 0),
  penaltySecMin: integer("min_backoff_penalty_sec", DEFAULT.penaltySecMin),
  penaltySecMax: integer("max_backoff_penalty_sec", DEFAULT.penaltySecMax),
  healthThresholdSec: integer("health_threshold_sec", DEFAULT.healthThresholdSec),
  workerLeaseSec: integer("worker_lease_sec", DEFAULT.workerLeaseSec),
  activityTimeoutSec: integer("activity_timeout_sec", DEFAULT.activityTimeoutSec),
  transientJobAgeSecMax: integer("transient_job_max_age_sec", DEFAULT.transientJobAgeSecMax, 0),
  abandonedSecMax: integer("abandoned_max_age_sec", DEFAULT.abandonedSecMax, 0),
  eventAgeSecMax: integer("event_max_age_sec", DEFAULT.eventAgeSecMax, 0),
  stallTimeoutSec: integer("stall_timeout_sec", DEFAULT.stallTimeoutSec),
  connectionCloseMs: integer("connection_close_interval", DEFAULT.connectionCloseMs),
  historyLengthMax: integer("max_history", DEFAULT.historyLengthMax),
  statisticsIntervalSec: integer("stats_update_interval_sec", DEFAULT.statisticsIntervalSec),
  lagIntervalSec: integer("lag_interval_sec", DEFAULT.lagIntervalSec),
  parkAfterSec: integer("park_after_sec", DEFAULT.parkAfterSec, 0),
  auditIntervalSec: integer("audit_interval_sec", DEFAULT.auditIntervalSec),
};

const CLIENT_SETTINGS: SettingsOf<ReplicatorConfig["client"]> = {
  requestTimeoutMs: limit("request_timeout", CLIENT_DEFAULT.requestTimeoutMs),
  usesSessions: authenticationPlugins("auth_plugins"),
  sessionRenewalSec: integer("session_refresh_interval_sec", CLIENT_DEFAULT.sessionRenewalSec),
  grantAgeSecMin: integer("session_min_update_interval", CLIENT_DEFAULT.grantAgeSecMin, 0),
};

const LIMIT_SETTINGS: SettingsOf<ReplicatorConfig["copyLimits"]> = {
  documentIdBytesMax: limit("max_document_id_length", LIMITS_DEFAULT.documentIdBytesMax),
  missingDocumentPauseMs: integer(
    "missing_doc_retry_msec",
    LIMITS_DEFAULT.missingDocumentPauseMs,
    0,
  ),
};

const PROTOCOL_SETTINGS: SettingsOf<ReplicatorConfig["protocols"]> = {
  endpoint: protocols("valid_endpoint_protocols", PROTOCOLS_DEFAULT.endpoint),
  proxy: protocols("valid_proxy_protocols", PROTOCOLS_DEFAULT.proxy),
};

const WARNING_SETTINGS: SettingsOf<ReplicatorConfig["warnsOf"]> = {
  plainHttp: booleanSetting(REPLICATOR_SECTION, "valid_endpoint_protocols_log", false),
  unverifiedTls: booleanSetting(REPLICATOR_SECTION, "verify_ssl_certificates_log", false),
};

const TLS_SETTINGS: SettingsOf<Required<ReplicatorConfig["tls"]>> = {
  verify: booleanSetting(REPLICATOR_SECTION, "verify_ssl_certificates", TLS_DEFAULT.verify),
  trustedCertificatesFile: textSetting(
    REPLICATOR_SECTION,
    "ssl_trusted_certificates_file",
    undefined,
  ),
  depthMax: integer("ssl_certificate_max_depth", TLS_DEFAULT.depthMax ?? 3, 0),
  certificateFile: textSetting(REPLICATOR_SECTION, "cert_file", undefined),
  keyFile: textSetting(REPLICATOR_SECTION, "key_file", undefined),
  password: textSetting(REPLICATOR_SECTION, "password", undefined),
};

const FAIR_SHARE_SETTINGS: SettingsOf<Omit<FairShare, "instalmentSec">> = {
  usageCoefficient: coefficientSetting(
    REPLICATOR_SECTION,
    "usage_coeff",
    FAIR_SHARE.usageCoefficient,
  ),
  intervalSec: integer("fair_share_interval_sec", FAIR_SHARE.intervalSec),
};

/** RFC 017's K2 is understood and has no effect: a decay that all priorities share does not change their order. */
const PRIORITY_COEFFICIENT = coefficientSetting(REPLICATOR_SECTION, "priority_coeff", 0.98);

/** Another name of a setting, which counts where its own is not set. */
interface OtherName {
  readonly name: Setting<number>;
  readonly of: Setting<number>;
  /** How many of the other name's units are one of ours; 1 when absent. */
  readonly perUnit?: number;
}

const OTHER_NAMES: readonly OtherName[] = [
  // CouchDB 3's.
  {
    name: integer("interval", DEFAULT.intervalSec * 1000),
    of: NODE_SETTINGS.intervalSec,
    perUnit: 1000,
  },
  // CouchDB 4's, in its `default.ini`.
  {
    name: integer("accept_jitter", DEFAULT.startupJitterMs, 0),
    of: NODE_SETTINGS.startupJitterMs,
  },
  // RFC 016's.
  {
    name: integer("min_backoff_penalty", DEFAULT.penaltySecMin),
    of: NODE_SETTINGS.penaltySecMin,
  },
  {
    name: integer("max_backoff_penalty", DEFAULT.penaltySecMax),
    of: NODE_SETTINGS.penaltySecMax,
  },
  // CouchDB 3's.
  {
    name: integer("health_threshold", DEFAULT.healthThresholdSec),
    of: NODE_SETTINGS.healthThresholdSec,
  },
];

const OPTION_SETTINGS = Object.fromEntries(
  Object.entries(REPLICATION_OPTIONS).map(([name, option]) => [name, optionSetting(option)]),
) as SettingsOf<ReplicationOptions>;

export const REPLICATOR_SETTINGS: readonly Setting<unknown>[] = [
  ...Object.values<Setting<unknown>>(NODE_SETTINGS),
  ...Object.values<Setting<unknown>>(TLS_SETTINGS),
  ...Object.values<Setting<unknown>>(FAIR_SHARE_SETTINGS),
  ...Object.values<Setting<unknown>>(CLIENT_SETTINGS),
  ...Object.values<Setting<unknown>>(LIMIT_SETTINGS),
  ...Object.values<Setting<unknown>>(PROTOCOL_SETTINGS),
  ...Object.values<Setting<unknown>>(WARNING_SETTINGS),
  PRIORITY_COEFFICIENT,
  ...OTHER_NAMES.map(({ name }) => name),
  ...Object.values<Setting<unknown>>(OPTION_SETTINGS),
];

/** Where settings and sections of free keys are found. */
export interface ReplicatorTexts extends SettingTexts {
  section(section: string): ReadonlyMap<string, string>;
}

/** Members are read again at each use, those of members too. */
export function replicatorConfig(texts: ReplicatorTexts): ReplicatorConfig {
  const { instalmentSec } = FAIR_SHARE;
  const config = Object.assign(liveSettings<NodeConfig>(withOtherNames(texts), NODE_SETTINGS), {
    client: liveSettings(texts, CLIENT_SETTINGS),
    copyLimits: liveSettings(texts, LIMIT_SETTINGS),
    protocols: liveSettings(texts, PROTOCOL_SETTINGS),
    warnsOf: liveSettings(texts, WARNING_SETTINGS),
    tls: liveSettings(texts, TLS_SETTINGS),
    options: liveSettings(withNumbersAsBounds(texts), OPTION_SETTINGS),
    fairShare: Object.assign(liveSettings(texts, FAIR_SHARE_SETTINGS), { instalmentSec }),
    shares: new Map<string, number>(),
  });
  return Object.defineProperty(config, "shares", {
    get: () => shares(texts.section(SHARES_SECTION)),
  });
}

/** Who sets a number and not its bound does not want more because a server is far away. */
function withNumbersAsBounds(texts: SettingTexts): SettingTexts {
  return {
    get(section, key) {
      const text = texts.get(section, key);
      const pair = FAR_BOUNDS.find(({ bound }) => REPLICATION_OPTIONS[bound].name === key);
      return text || pair === undefined
        ? text
        : texts.get(section, REPLICATION_OPTIONS[pair.of].name);
    },
  };
}

function withOtherNames(texts: SettingTexts): SettingTexts {
  return {
    get(section, key) {
      const text = texts.get(section, key);
      if (section !== REPLICATOR_SECTION || text) return text;
      const other = OTHER_NAMES.find(({ of }) => of.key === key);
      const otherText = other && texts.get(section, other.name.key);
      return (
        other && otherText && String(Math.ceil(other.name.read(otherText) / (other.perUnit ?? 1)))
      );
    },
  };
}

/** Throws a ConfigError for a text that a file may have, and that would count as other shares than it says. */
export function checkShares(group: string, text: string): void {
  const { read } = integerSetting(SHARES_SECTION, group, SHARES_DEFAULT, {
    min: SHARES_MIN,
    max: SHARES_MAX,
  });
  if (text === "") {
    const expected = `an integer of ${SHARES_MIN} to ${SHARES_MAX}`;
    throw unusable({ section: SHARES_SECTION, key: group }, '""', expected);
  }
  read(text);
}

/** As in CouchDB a number outside the limits counts as the nearer one, and a text that is no integer as the default. */
function shares(texts: ReadonlyMap<string, string>): ReadonlyMap<string, number> {
  const named = new Map<string, number>();
  for (const [name, text] of texts) {
    const count = /^-?\d+$/.test(text) ? Number(text) : SHARES_DEFAULT;
    named.set(name, Math.min(SHARES_MAX, Math.max(SHARES_MIN, count)));
  }
  return named;
}

/** A positive integer, or CouchDB's `infinity`. */
function limit(key: string, fallback: number): Setting<number> {
  const { section, read } = integer(key, fallback);
  return {
    section,
    key,
    read: (text) => (text === "infinity" ? Number.POSITIVE_INFINITY : read(text)),
  };
}

/**
 * Whether `session` is among the plugins, which are tried in order. `noop` sends the password each time, which is also what is done
 * for servers without sessions, so that its place, and whether it is named, makes no difference.
 */
function authenticationPlugins(key: string): Setting<boolean> {
  const { read } = listSetting(REPLICATOR_SECTION, key, ["session", "noop"]);
  return {
    section: REPLICATOR_SECTION,
    key,
    defaultText: "session,noop",
    read(text) {
      const names = read(text || undefined).map((name) =>
        name.replace(/^couch_replicator_auth_/, ""),
      );
      if (names.length > 0 && names.every((name) => ["session", "noop"].includes(name))) {
        return names[0] === "session";
      }
      throw unusable(
        { section: REPLICATOR_SECTION, key },
        text ?? "",
        "a list of session and noop",
      );
    },
  };
}

function protocols(key: string, fallback: readonly string[]): Setting<readonly string[]> {
  const { read } = listSetting(REPLICATOR_SECTION, key, fallback);
  return {
    section: REPLICATOR_SECTION,
    key,
    read(text) {
      const names = read(text || undefined);
      if (names.length > 0 && names.every((name) => fallback.includes(name))) return names;
      throw unusable(
        { section: REPLICATOR_SECTION, key },
        text ?? "",
        `a list of ${fallback.join(", ")}`,
      );
    },
  };
}

function integer(key: string, fallback: number, min = 1): Setting<number> {
  return integerSetting(REPLICATOR_SECTION, key, fallback, { min });
}

function optionSetting(option: Option): Setting<unknown> {
  const { kind, name } = option;
  if (kind === "boolean") return booleanSetting(REPLICATOR_SECTION, name, option.default);
  if (kind === "choice")
    return choiceSetting(REPLICATOR_SECTION, name, option.default, option.choices);
  return integerSetting(REPLICATOR_SECTION, name, option.default, option);
}
