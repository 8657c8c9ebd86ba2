/**
 * `[replicator]`, read on each use. Names are CouchDB's; units and defaults are those of
 * `ReplicatorConfig`.
 */
import {
  FAR_BOUNDS,
  type Option,
  REPLICATION_OPTIONS,
  type ReplicationOptions,
} from "../../contract/index.ts";
import { type FairShare, SHARES_DEFAULT, SHARES_MAX, SHARES_MIN } from "../../jobs/index.ts";
import {
  REPLICATOR_CONFIG_DEFAULT,
  type ReplicatorConfig,
  TLS_DEFAULT,
} from "../../replicator/index.ts";
import {
  listed,
  liveSettings,
  type Setting,
  type SettingsOf,
  type SettingTexts,
  sectionOf,
  unusable,
} from "./settings.ts";

export const REPLICATOR_SECTION = "replicator";
export const SHARES_SECTION = "replicator.shares";

const {
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

const { parsed, integer, limit, flag, text, coefficient, choice, someOf } =
  sectionOf(REPLICATOR_SECTION);

const NODE_SETTINGS: SettingsOf<NodeConfig> = {
  jobsMax: integer("max_jobs", DEFAULT.jobsMax, {
    min: 0,
    unit: "jobs",
    meaning:
      "maximum number of jobs that a node runs at the same time ([sizing](sizing.md)), not counting parked jobs",
  }),
  intervalSec: integer("interval_sec", DEFAULT.intervalSec, {
    unit: "s",
    meaning:
      "length of a scheduling cycle, after which jobs are stopped to let others run; if unset, CouchDB 3's `interval` (in ms) applies",
  }),
  churnMax: integer("max_churn", DEFAULT.churnMax, {
    min: 0,
    unit: "jobs",
    meaning: "maximum number of jobs stopped per cycle to let others run",
  }),
  runSecMin: integer("min_run_time_sec", DEFAULT.runSecMin, {
    min: 0,
    unit: "s",
    meaning: "minimum run time before a job is stopped to let others run",
  }),
  startupJitterMs: integer("startup_jitter", DEFAULT.startupJitterMs, {
    min: 0,
    unit: "ms",
    meaning:
      "maximum random delay before an accepted job starts; CouchDB: 5000; if unset, `accept_jitter` applies",
  }),
  penaltySecMin: integer("min_backoff_penalty_sec", DEFAULT.penaltySecMin, {
    unit: "s",
    meaning:
      "pause after a first failure, doubled each time; if unset, RFC 016's `min_backoff_penalty` applies; CouchDB 4: 32",
  }),
  penaltySecMax: integer("max_backoff_penalty_sec", DEFAULT.penaltySecMax, {
    unit: "s",
    meaning: "maximum pause; if unset, RFC 016's `max_backoff_penalty` applies; CouchDB 4: 172,800",
  }),
  healthThresholdSec: integer("health_threshold_sec", DEFAULT.healthThresholdSec, {
    unit: "s",
    meaning:
      "run duration after which earlier failures are cleared; if unset, CouchDB 3's `health_threshold` applies",
  }),
  workerLeaseSec: integer("worker_lease_sec", DEFAULT.workerLeaseSec, {
    unit: "s",
    waitsForStart: true,
    meaning: "lifetime of a node's lease on its jobs, which is renewed five times in that time",
  }),
  activityTimeoutSec: integer("activity_timeout_sec", DEFAULT.activityTimeoutSec, {
    unit: "s",
    meaning: "time without a job's heartbeat after which its live node loses it",
  }),
  transientJobAgeSecMax: integer("transient_job_max_age_sec", DEFAULT.transientJobAgeSecMax, {
    min: 0,
    unit: "s",
    meaning: "time that finished transient jobs are kept",
  }),
  abandonedSecMax: integer("abandoned_max_age_sec", DEFAULT.abandonedSecMax, {
    min: 0,
    unit: "s",
    meaning: "time that a replication's failures and local checkpoints are kept after its last job",
  }),
  eventAgeSecMax: integer("event_max_age_sec", DEFAULT.eventAgeSecMax, {
    min: 0,
    unit: "s",
    meaning: "time that [events](api/jobs.md#events) are kept; routine ones for at most 15 minutes",
  }),
  eventBytesMax: integer("event_max_bytes", DEFAULT.eventBytesMax, {
    min: 0,
    unit: "bytes",
    meaning: "maximum size of events older than 15 minutes; the oldest are deleted first",
  }),
  stallTimeoutSec: integer("stall_timeout_sec", DEFAULT.stallTimeoutSec, {
    unit: "s",
    meaning: "time without progress after which a run restarts with new connections",
  }),
  connectionCloseMs: integer("connection_close_interval", DEFAULT.connectionCloseMs, {
    unit: "ms",
    meaning: "time that an unused connection is kept open",
  }),
  historyLengthMax: integer("max_history", DEFAULT.historyLengthMax, {
    unit: "events",
    meaning: "maximum length of a job's history, not counting `pending`",
  }),
  statisticsIntervalSec: integer("stats_update_interval_sec", DEFAULT.statisticsIntervalSec, {
    unit: "s",
    meaning:
      "interval at which statistics of copying jobs are written, by each node for at most 100 jobs per second; CouchDB: 10",
  }),
  lagIntervalSec: integer("lag_interval_sec", DEFAULT.lagIntervalSec, {
    unit: "s",
    meaning:
      "interval at which the sources of waiting and paused jobs are asked for pending changes, at most ten jobs per second",
  }),
  parkAfterSec: integer("park_after_sec", DEFAULT.parkAfterSec, {
    min: 0,
    unit: "s",
    meaning:
      "idle time after which a caught-up continuous job [parks](per-user-databases.md#parking); 0: never",
  }),
  auditIntervalSec: integer("audit_interval_sec", DEFAULT.auditIntervalSec, {
    unit: "s",
    meaning: "interval, ±10 %, at which a parked job checks both databases",
  }),
};

const CLIENT_SETTINGS: SettingsOf<ReplicatorConfig["client"]> = {
  requestTimeoutMs: limit("request_timeout", CLIENT_DEFAULT.requestTimeoutMs, {
    unit: "ms",
    meaning: "time limit for a complete request, except `_changes`",
  }),
  /**
   * Whether `session` is the first plugin. Only the first plugin matters: `noop` sends the password
   * with each request, and `session` falls back to this if the server has no sessions.
   */
  usesSessions: parsed("auth_plugins", {
    default: CLIENT_DEFAULT.usesSessions,
    defaultText: "session,noop",
    meaning:
      "if `noop` is first in the list, each request contains the password, and no sessions are used; CouchDB's long names are accepted",
    parse(plugins) {
      const names = listed(plugins).map((name) => name.replace(/^couch_replicator_auth_/, ""));
      const isKnown = names.every((name) => ["session", "noop"].includes(name));
      return isKnown && names.length > 0
        ? { value: names[0] === "session" }
        : { expected: "a list of `session`, `noop` or both" };
    },
  }),
  sessionRenewalSec: integer("session_refresh_interval_sec", CLIENT_DEFAULT.sessionRenewalSec, {
    unit: "s",
    meaning: "age at which a session is renewed if the server states no lifetime",
  }),
  grantAgeSecMin: integer("session_min_update_interval", CLIENT_DEFAULT.grantAgeSecMin, {
    min: 0,
    unit: "s",
    meaning: "minimum age for renewal of a session or token after a rejected request",
  }),
};

const LIMIT_SETTINGS: SettingsOf<ReplicatorConfig["copyLimits"]> = {
  documentIdBytesMax: limit("max_document_id_length", LIMITS_DEFAULT.documentIdBytesMax, {
    unit: "bytes",
    meaning: "documents with longer ids are listed as failures",
  }),
  missingDocumentPauseMs: integer("missing_doc_retry_msec", LIMITS_DEFAULT.missingDocumentPauseMs, {
    min: 0,
    unit: "ms",
    meaning: "pause before requesting an announced but missing revision again",
  }),
};

const PROTOCOL_SETTINGS: SettingsOf<ReplicatorConfig["protocols"]> = {
  endpoint: someOf(
    "valid_endpoint_protocols",
    PROTOCOLS_DEFAULT.endpoint,
    PROTOCOLS_DEFAULT.endpoint,
    {
      meaning: "allowed schemes of remote sources and targets",
    },
  ),
  proxy: someOf("valid_proxy_protocols", PROTOCOLS_DEFAULT.proxy, PROTOCOLS_DEFAULT.proxy, {
    meaning: "allowed schemes of proxies",
  }),
};

const WARNING_SETTINGS: SettingsOf<ReplicatorConfig["warnsOf"]> = {
  plainHttp: flag("valid_endpoint_protocols_log", DEFAULT.warnsOf.plainHttp, {
    meaning: "whether each run over `http://` is logged",
  }),
  unverifiedTls: flag("verify_ssl_certificates_log", DEFAULT.warnsOf.unverifiedTls, {
    meaning: "whether each run without verified certificates is logged",
  }),
};

const TLS_SETTINGS: SettingsOf<Required<ReplicatorConfig["tls"]>> = {
  verify: flag("verify_ssl_certificates", TLS_DEFAULT.verify, {
    meaning: "whether server certificates are verified; CouchDB: false",
  }),
  trustedCertificatesFile: text("ssl_trusted_certificates_file", undefined, {
    defaultWords: "the system's",
    meaning:
      "trusted authorities (PEM); default: `SSL_CERT_FILE`, or else the system's, plus `NODE_EXTRA_CA_CERTS`",
  }),
  depthMax: integer("ssl_certificate_max_depth", TLS_DEFAULT.depthMax, {
    min: 0,
    meaning: "maximum number of intermediate certificates",
  }),
  certificateFile: text("cert_file", undefined, {
    meaning: "client certificate (PEM), reloaded within ten seconds",
  }),
  keyFile: text("key_file", undefined, { meaning: "key of the client certificate (PEM)" }),
  password: text("password", undefined, { meaning: "passphrase of the key file" }),
};

const FAIR_SHARE_SETTINGS: SettingsOf<Omit<FairShare, "instalmentSec">> = {
  usageCoefficient: coefficient("usage_coeff", FAIR_SHARE.usageCoefficient, {
    meaning: "fraction of a group's past usage kept after each `fair_share_interval_sec`",
  }),
  intervalSec: integer("fair_share_interval_sec", FAIR_SHARE.intervalSec, {
    unit: "s",
    meaning: "see `usage_coeff`",
  }),
};

/**
 * RFC 017's K2 is accepted but has no effect: a decay common to all priorities does not change
 * their order.
 */
const PRIORITY_COEFFICIENT = coefficient("priority_coeff", 0.98, {
  meaning: "no effect",
});

/** An alias of a setting, read if the setting itself is not set. */
interface OtherName {
  readonly name: Setting<number>;
  readonly of: Setting<number>;
  /** Number of units of the alias that make up one unit of the setting. Default: 1. */
  readonly perUnit?: number;
}

/**
 * Aliases: the names in CouchDB 3 (`interval`, `health_threshold`), in CouchDB 4's `default.ini`,
 * and in RFC 016.
 */
const OTHER_NAMES: readonly OtherName[] = [
  otherName("interval", NODE_SETTINGS.intervalSec, { perUnit: 1000 }),
  otherName("accept_jitter", NODE_SETTINGS.startupJitterMs, { min: 0 }),
  otherName("min_backoff_penalty", NODE_SETTINGS.penaltySecMin),
  otherName("max_backoff_penalty", NODE_SETTINGS.penaltySecMax),
  otherName("health_threshold", NODE_SETTINGS.healthThresholdSec),
];

const OPTION_SETTINGS = Object.fromEntries(
  Object.entries(REPLICATION_OPTIONS).map(([name, option]) => [name, optionSetting(option)]),
) as SettingsOf<ReplicationOptions>;

/** The settings of `[replicator]` that are neither options of replications nor aliases. */
export const REPLICATOR_OWN_SETTINGS: readonly Setting<unknown>[] = [
  NODE_SETTINGS,
  FAIR_SHARE_SETTINGS,
  { priorityCoefficient: PRIORITY_COEFFICIENT },
  TLS_SETTINGS,
  CLIENT_SETTINGS,
  LIMIT_SETTINGS,
  PROTOCOL_SETTINGS,
  WARNING_SETTINGS,
].flatMap((table) => Object.values<Setting<unknown>>(table));

export const REPLICATOR_SETTINGS: readonly Setting<unknown>[] = [
  ...REPLICATOR_OWN_SETTINGS,
  ...OTHER_NAMES.map(({ name }) => name),
  ...Object.values<Setting<unknown>>(OPTION_SETTINGS),
];

/** Access to settings, and to sections with arbitrary keys. */
export interface ReplicatorTexts extends SettingTexts {
  section(section: string): ReadonlyMap<string, string>;
}

/** Creates the configuration. Its members are read on each use, including nested ones. */
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

/**
 * Adds defaults for options with a second, larger limit for distant servers. If the limit for
 * distant servers is not set, it is read from the option itself, so that the option limits all
 * servers.
 */
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

/**
 * Throws a ConfigError for invalid shares. They would otherwise be read as the default or the
 * nearest limit.
 */
export function checkShares(group: string, shares: string): void {
  const setting = sectionOf(SHARES_SECTION).integer(group, SHARES_DEFAULT, {
    min: SHARES_MIN,
    max: SHARES_MAX,
    meaning: "",
  });
  if (shares === "") throw unusable(setting, '""', `an integer of ${setting.values}`);
  setting.read(shares);
}

/**
 * Parses the shares as CouchDB does: a number outside the limits is read as the nearest limit, and
 * a text that is not an integer is read as the default.
 */
function shares(texts: ReadonlyMap<string, string>): ReadonlyMap<string, number> {
  const named = new Map<string, number>();
  for (const [name, text] of texts) {
    const count = /^-?\d+$/.test(text) ? Number(text) : SHARES_DEFAULT;
    named.set(name, Math.min(SHARES_MAX, Math.max(SHARES_MIN, count)));
  }
  return named;
}

function otherName(
  key: string,
  of: Setting<number>,
  { perUnit = 1, min = 1 }: { readonly perUnit?: number; readonly min?: number } = {},
): OtherName {
  const fallback = of.read(undefined) * perUnit;
  return { name: integer(key, fallback, { min, meaning: `see \`${of.key}\`` }), of, perUnit };
}

function optionSetting(option: Option): Setting<unknown> {
  const { kind, name } = option;
  if (kind === "boolean") return flag(name, option.default, option);
  if (kind === "choice") return choice(name, option.default, option.choices, option);
  return integer(name, option.default, option);
}
