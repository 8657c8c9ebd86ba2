/**
 * What a node is told: the command line first, then the environment (`TANDEM_…`), then the INI file, then the defaults.
 * Names and meanings are CouchDB's where it has them.
 */
import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { REPLICATOR_CONFIG_DEFAULT, type ReplicatorConfig } from "../replicator/index.ts";
import { type IniSections, parseIni } from "./ini.ts";

export type StoreName = "lmdb" | "memory" | "foundationdb";
export type NodeType = "api_frontend" | "replication";

/** What the command line may say; absent members are decided by the environment, the file, or the default. */
export interface ServeOptions {
  readonly port?: number;
  readonly bindAddress?: string;
  readonly dataDirectory?: string;
  readonly configFile?: string;
  readonly store?: string;
  readonly clusterFile?: string;
  readonly nodeType?: string;
  readonly replicationProcesses?: number;
}

export interface ServerConfig {
  /** 0 picks a free one. */
  readonly port: number;
  readonly bindAddress: string;
  readonly dataDirectory: string;
  readonly store: StoreName;
  readonly clusterFile: string | undefined;
  /** `[foundationdb] api_version` and `header_version`; undefined: what all supported clients speak. */
  readonly foundationDbVersions: {
    readonly apiVersion: number | undefined;
    readonly headerVersion: number | undefined;
  };
  readonly nodeTypes: ReadonlySet<NodeType>;
  /** `name@host`. */
  readonly nodeName: string;
  /** Names with passwords, plain or hashed as CouchDB hashes them. Empty: whoever reaches the server is an administrator. */
  readonly admins: ReadonlyMap<string, string>;
  /** `[couchdb] uuid`: 32 hex digits, the same for all nodes; undefined: the store keeps one. */
  readonly serverUuid: string | undefined;
  readonly logLevel: "debug" | "info" | "warn" | "error" | "silent";
  readonly replicator: ReplicatorConfig;
}

/** A setting that cannot be used; the message names it, its value and what would be right. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
}

type Environment = Readonly<Record<string, string | undefined>>;

const LOOPBACK = new Set(["127.0.0.1", "::1", "localhost"]);

export function readConfig(options: ServeOptions, environment: Environment): ServerConfig {
  const configFile = options.configFile ?? environment.TANDEM_CONFIG;
  const ini = configFile === undefined ? new Map() : readIni(configFile);
  const config: ServerConfig = {
    port:
      options.port ??
      integer("TANDEM_PORT", environment.TANDEM_PORT, 0) ??
      integer("[chttpd] port", value(ini, "chttpd", "port"), 0) ??
      5984,
    bindAddress:
      options.bindAddress ??
      environment.TANDEM_BIND_ADDRESS ??
      value(ini, "chttpd", "bind_address") ??
      "127.0.0.1",
    dataDirectory:
      options.dataDirectory ??
      environment.TANDEM_DATA_DIR ??
      value(ini, "couchdb", "database_dir") ??
      "./data",
    store: storeName(options.store ?? environment.TANDEM_STORE ?? value(ini, "tandem", "store")),
    clusterFile: options.clusterFile ?? environment.TANDEM_CLUSTER_FILE,
    foundationDbVersions: {
      apiVersion: foundationDbVersion(ini, "api_version"),
      headerVersion: foundationDbVersion(ini, "header_version"),
    },
    nodeTypes: nodeTypes(options.nodeType ?? environment.TANDEM_NODE_TYPE, environment),
    nodeName: value(ini, "tandem", "node_name") ?? `tandem@${hostname()}`,
    admins: admins(ini, environment),
    serverUuid: value(ini, "couchdb", "uuid"),
    logLevel: logLevel(environment.TANDEM_LOG_LEVEL ?? value(ini, "log", "level")),
    replicator: replicatorConfig(ini),
  };
  const processes =
    options.replicationProcesses ??
    integer("TANDEM_REPLICATION_PROCESSES", environment.TANDEM_REPLICATION_PROCESSES, 0);
  if (processes !== undefined && processes > 0) {
    throw new ConfigError(
      "--replication-processes is not there yet: start further nodes on the same data folder instead",
    );
  }
  if (config.admins.size === 0 && !LOOPBACK.has(config.bindAddress)) {
    throw new ConfigError(
      `bind address ${config.bindAddress} without an administrator: set [admins] in the config file or COUCHDB_USER and COUCHDB_PASSWORD, or serve 127.0.0.1`,
    );
  }
  return config;
}

function readIni(file: string): IniSections {
  try {
    return parseIni(readFileSync(file, "utf8"));
  } catch (error) {
    throw new ConfigError(`config file ${file}: ${(error as Error).message}`, { cause: error });
  }
}

function value(ini: IniSections, section: string, key: string): string | undefined {
  const found = ini.get(section)?.get(key);
  return found === "" ? undefined : found;
}

function integer(name: string, text: string | undefined, min: number): number | undefined {
  if (text === undefined) return undefined;
  const number = Number(text);
  if (!/^\d+$/.test(text) || number < min) {
    throw new ConfigError(`${name} = ${text}: expected an integer of at least ${min}`);
  }
  return number;
}

function foundationDbVersion(ini: IniSections, key: string): number | undefined {
  return integer(`[foundationdb] ${key}`, value(ini, "foundationdb", key), 1);
}

function storeName(text = "lmdb"): StoreName {
  if (text === "lmdb" || text === "memory" || text === "foundationdb") return text;
  throw new ConfigError(`store ${text}: expected lmdb, memory or foundationdb`);
}

function logLevel(text = "info"): ServerConfig["logLevel"] {
  if (text === "warning") return "warn";
  if (text === "notice") return "info";
  const levels = ["debug", "info", "warn", "error", "silent"] as const;
  const found = levels.find((level) => level === text);
  if (found === undefined) {
    throw new ConfigError(`log level ${text}: expected one of ${levels.join(", ")}`);
  }
  return found;
}

/** RFC 013: both types unless the option names some, or the environment says `false`. */
function nodeTypes(option: string | undefined, environment: Environment): ReadonlySet<NodeType> {
  const all: readonly NodeType[] = ["api_frontend", "replication"];
  if (option !== undefined) {
    const named = option.split(",").map((name) => name.trim());
    for (const name of named) {
      if (name !== "api_frontend" && name !== "replication") {
        throw new ConfigError(`node type ${name}: expected api_frontend or replication`);
      }
    }
    return new Set(named as NodeType[]);
  }
  return new Set(
    all.filter((type) => {
      const text = environment[`COUCHDB_NODE_TYPE_${type.toUpperCase()}`];
      return text?.toLowerCase() !== "false";
    }),
  );
}

function admins(ini: IniSections, environment: Environment): ReadonlyMap<string, string> {
  const found = new Map(ini.get("admins") ?? []);
  const { COUCHDB_USER: user, COUCHDB_PASSWORD: password } = environment;
  if ((user === undefined) !== (password === undefined)) {
    throw new ConfigError("COUCHDB_USER and COUCHDB_PASSWORD: expected both or neither");
  }
  if (user !== undefined && password !== undefined) found.set(user, password);
  return found;
}

function replicatorConfig(ini: IniSections): ReplicatorConfig {
  const setting = (key: string, otherwise: number, min = 1): number =>
    integer(`[replicator] ${key}`, value(ini, "replicator", key), min) ?? otherwise;
  const flag = (key: string, otherwise: boolean): boolean => {
    const text = value(ini, "replicator", key);
    if (text === undefined) return otherwise;
    if (text !== "true" && text !== "false") {
      throw new ConfigError(`[replicator] ${key} = ${text}: expected true or false`);
    }
    return text === "true";
  };
  const { options, ...defaults } = REPLICATOR_CONFIG_DEFAULT;
  return {
    jobsMax: setting("max_jobs", defaults.jobsMax),
    penaltySecMin: setting("min_backoff_penalty_sec", defaults.penaltySecMin),
    penaltySecMax: setting("max_backoff_penalty_sec", defaults.penaltySecMax),
    healthThresholdSec: setting("health_threshold_sec", defaults.healthThresholdSec),
    workerLeaseSec: setting("worker_lease_sec", defaults.workerLeaseSec),
    activityTimeoutSec: setting("activity_timeout_sec", defaults.activityTimeoutSec),
    transientJobAgeSecMax: setting("transient_job_max_age_sec", defaults.transientJobAgeSecMax, 0),
    connectionCloseMs: setting("connection_close_interval", defaults.connectionCloseMs),
    tls: {
      verify: flag("verify_ssl_certificates", defaults.tls.verify),
      depthMax: setting("ssl_certificate_max_depth", defaults.tls.depthMax ?? 3, 0),
      ...files(ini),
    },
    options: {
      useCheckpoints: flag("use_checkpoints", options.useCheckpoints),
      checkpointIntervalMs: setting("checkpoint_interval", options.checkpointIntervalMs),
      workerProcesses: setting("worker_processes", options.workerProcesses),
      workerBatchSize: setting("worker_batch_size", options.workerBatchSize),
      httpConnections: setting("http_connections", options.httpConnections),
      connectionTimeoutMs: setting("connection_timeout", options.connectionTimeoutMs),
      retriesPerRequest: setting("retries_per_request", options.retriesPerRequest, 0),
      useBulkGet: flag("use_bulk_get", options.useBulkGet),
    },
  };
}

/** The files of `[replicator]` for TLS, under their names in the settings. */
function files(ini: IniSections): Partial<ReplicatorConfig["tls"]> {
  const named = {
    trustedCertificatesFile: value(ini, "replicator", "ssl_trusted_certificates_file"),
    certificateFile: value(ini, "replicator", "cert_file"),
    keyFile: value(ini, "replicator", "key_file"),
    password: value(ini, "replicator", "password"),
  };
  return Object.fromEntries(Object.entries(named).filter(([, text]) => text !== undefined));
}
