/**
 * Options of a node that are read at startup. The command line takes precedence over the
 * environment (`TANDEM_…`), the environment over the INI files, and the INI files over the
 * defaults. Options that also exist in CouchDB have CouchDB's names and meanings. All other
 * settings are read on each use from the `configuration`.
 */
import { statSync } from "node:fs";
import { hostname } from "node:os";
import { join, resolve } from "node:path";
import { createSystemRuntime } from "../../host/index.ts";
import {
  isLabel,
  LABEL_RULE,
  type Labels,
  labelSet,
  NO_LABELS,
  WORKER_LABELS_MAX,
} from "../../jobs/index.ts";
import type { SecretLookup } from "../../replicator/index.ts";
import { KeyRing } from "../secrets/key-ring.ts";
import { type KeySource, keySource, readKeys } from "../secrets/key-source.ts";
import { secretLookup } from "../secrets/secret-lookup.ts";
import { ALERT_SETTINGS } from "./alert-settings.ts";
import { API_SETTINGS, AUTHENTICATION_SETTINGS } from "./authentication-settings.ts";
import { AUTO_PURGE_SETTINGS } from "./auto-purge-settings.ts";
import { Configuration, readIni } from "./configuration.ts";
import { CORS_ENABLED, CORS_SETTINGS } from "./cors-settings.ts";
import { REFUSED_SETTINGS } from "./couchdb-settings.ts";
import { DATABASE_SETTINGS } from "./database-settings.ts";
import { EGRESS_SETTINGS } from "./egress-settings.ts";
import { IDENTITIES_SECTION, parseIdentities } from "./identity-settings.ts";
import type { IniSections } from "./ini.ts";
import { LOCKOUT_SETTINGS } from "./lockout-settings.ts";
import { environmentLog, LOG_SETTINGS, type LogSettings, logSettings } from "./log-settings.ts";
import { PASSWORD_SETTINGS } from "./password-settings.ts";
import { REPLICATOR_OWN_SETTINGS, REPLICATOR_SETTINGS } from "./replicator-settings.ts";
import { ConfigError, listed, type Setting, sectionOf } from "./settings.ts";
import { TAG_SETTINGS } from "./tag-settings.ts";
import { readServerTls, SERVER_TLS_SETTINGS, type ServerTls } from "./tls-settings.ts";
import { USER_DATABASE_SETTINGS } from "./user-database-settings.ts";

const STORE_NAMES = ["lmdb", "memory", "foundationdb"] as const;
export type StoreName = (typeof STORE_NAMES)[number];
const ENABLE_FORMATS = ["alone", "command"] as const;
export type NodeType = "api_frontend" | "replication";

/**
 * Options of the command line. Missing members come from the environment, the file, or the
 * defaults.
 */
export interface ServeOptions {
  readonly port?: number;
  readonly bindAddress?: string;
  readonly dataDirectory?: string;
  readonly configFile?: string;
  /** Settings by section and key, used instead of a configuration file. */
  readonly sections?: IniSections;
  readonly store?: string;
  readonly clusterFile?: string;
  readonly nodeType?: string;
  readonly replicationProcesses?: number;
}

export interface ServerConfig {
  /** Port of the API; 0 selects a free port. */
  readonly port: number;
  readonly bindAddress: string;
  /** Settings of `[ssl]`, for a TLS port on the same address; absent without TLS. */
  readonly tls: ServerTls | undefined;
  readonly dataDirectory: string;
  readonly store: StoreName;
  readonly clusterFile: string | undefined;
  /** Settings of `[foundationdb]`. */
  readonly foundationDb: {
    /**
     * API version of FoundationDB. Default: a version that all supported client libraries speak.
     */
    readonly apiVersion: number | undefined;
    readonly headerVersion: number | undefined;
    /** Key prefix of this store; absent if the store has the cluster to itself. */
    readonly prefix: string | undefined;
  };
  readonly nodeTypes: ReadonlySet<NodeType>;
  /** Number of replication nodes in separate processes. */
  readonly replicationProcesses: number;
  /** External URL of the cluster's API, if another process serves it. */
  readonly publicUrl: string | undefined;
  /** Whether a new store format is enabled by a node that starts alone, or only by a command. */
  readonly enableFormats: (typeof ENABLE_FORMATS)[number];
  /** Name of the node, `name@host`. */
  readonly nodeName: string;
  /** Labels of the node, by which jobs select nodes. */
  readonly labels: Labels;
  /**
   * `[couchdb] uuid`, the same for all nodes. CouchDB generates 32 hex digits. Default: a generated
   * id that is kept in the store.
   */
  readonly serverUuid: string | undefined;
  /**
   * `[tandem] utils_dir`: folder served below `/_utils/`. Cannot be set over HTTP, because it
   * exposes a folder to everyone.
   */
  readonly utilitiesDirectory: string | undefined;
  readonly log: LogSettings;
  /** Keys that seal secrets in the store and in `local.ini`. */
  readonly secrets: {
    readonly ring: KeyRing;
    readonly source: KeySource;
    /** Resolves the secret references of jobs. */
    readonly lookUp: SecretLookup;
  };
  /** Settings that can be changed at runtime. */
  readonly configuration: Configuration;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Whether the address is reachable only from this machine. */
export function isLoopback(address: string): boolean {
  return ["127.0.0.1", "::1", "localhost"].includes(address);
}

const PORT_MAX = 65_535;

/**
 * Maximum number of replication processes. Each is a Node.js process of about a hundred megabytes.
 */
const REPLICATION_PROCESSES_MAX = 256;

const AT_START = { waitsForStart: true };
const chttpd = sectionOf("chttpd", AT_START);
const couchdb = sectionOf("couchdb", AT_START);
const tandem = sectionOf("tandem", AT_START);
const foundationDb = sectionOf("foundationdb", AT_START);
const secretSettings = sectionOf("secrets", AT_START);

/**
 * Settings that are read at startup, and only if neither command line nor environment sets them.
 */
export const START_SETTINGS = {
  port: chttpd.integer("port", 5984, {
    min: 0,
    max: PORT_MAX,
    meaning: "port to listen on; 0 picks a free one",
  }),
  bindAddress: chttpd.text("bind_address", "127.0.0.1", {
    meaning:
      "address to listen on; any address other than loopback requires a configured administrator",
  }),
  store: tandem.choice("store", "lmdb", STORE_NAMES, {
    meaning: "engine of the store; `memory`: all data is lost at exit",
  }),
  enableFormats: tandem.choice("enable_formats", "alone", ENABLE_FORMATS, {
    meaning:
      "what enables a new store format: the start of a node while no other is alive, or only `tandem upgrade --enable`",
  }),
  nodeName: tandem.text("node_name", undefined, {
    defaultWords: "`tandem@` and the host name",
    meaning: "name of the node in `_scheduler`",
  }),
  labels: tandem.parsed<Labels>("labels", {
    default: NO_LABELS,
    defaultWords: "none",
    values: `up to ${WORKER_LABELS_MAX} labels, separated by commas`,
    meaning:
      "labels of the node, such as `site:berlin`, by which jobs [select nodes](clusters.md#choose-nodes-for-jobs)",
    parse(text) {
      const labels = labelSet(listed(text));
      if (labels.length > WORKER_LABELS_MAX)
        return { expected: `up to ${WORKER_LABELS_MAX} labels` };
      return labels.every(isLabel) ? { value: labels } : { expected: `labels of ${LABEL_RULE}` };
    },
  }),
  serverUuid: couchdb.text("uuid", undefined, {
    defaultWords: "drawn once",
    meaning:
      "the same on all nodes: 32 hex digits as CouchDB generates them, or the uuid of the CouchDB that is replaced; part of replication ids",
  }),
  /** 0 selects a version that all supported client libraries speak. */
  apiVersion: foundationDb.integer("api_version", 0, {
    min: 0,
    meaning: "API version requested from the FoundationDB client library",
  }),
  headerVersion: foundationDb.integer("header_version", 0, {
    min: 0,
    meaning: "API version of the headers with which the npm package was built",
  }),
  prefix: foundationDb.text("prefix", undefined, {
    meaning: "prefix of every key of the store; any text",
  }),
};

/** References that the operator permits jobs to use; a final `*` is a wildcard. */
const SECRET_REFERENCES = secretSettings.list(
  "references",
  ["env:CREDENTIAL_*", "file:/run/secrets/*"],
  {
    meaning:
      "comma-separated secret references that jobs may contain instead of credentials; a trailing `*` matches any suffix",
  },
);

/** Settings that name this server's own key files. */
const KEY_FILES = [
  ["secrets", "key_file"],
  ["ssl", "key_file"],
  ["replicator", "key_file"],
] as const;

/**
 * Settings that are read only from the configuration file, because users who may change settings
 * over HTTP must not choose what the node opens.
 */
export const FILE_SETTINGS: readonly Setting<unknown>[] = [
  couchdb.text("database_dir", undefined, {
    defaultWords: "./data",
    meaning: "folder of the embedded store",
  }),
  secretSettings.text("key_file", undefined, {
    meaning: "the key that seals secrets in the store",
  }),
  tandem.text("utils_dir", undefined, {
    meaning: "folder of a browser application served below `/_utils/`",
  }),
  SECRET_REFERENCES,
];

/**
 * Throws a ConfigError if the path or one of its parents is a file. A missing folder is created
 * later.
 */
function checkFolder(dataDirectory: string): void {
  try {
    if (statSync(dataDirectory).isDirectory()) return;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return;
    if (code !== "ENOTDIR") {
      const reason = (error as Error).message;
      throw new ConfigError(`data folder ${dataDirectory}: ${reason}`, { cause: error });
    }
  }
  throw new ConfigError(`data folder ${dataDirectory}: the path or one of its parents is a file`);
}

const TABLES = [
  ALERT_SETTINGS,
  AUTHENTICATION_SETTINGS,
  AUTO_PURGE_SETTINGS,
  API_SETTINGS,
  { isEnabled: CORS_ENABLED },
  CORS_SETTINGS,
  DATABASE_SETTINGS,
  EGRESS_SETTINGS,
  LOCKOUT_SETTINGS,
  PASSWORD_SETTINGS,
  SERVER_TLS_SETTINGS,
  TAG_SETTINGS,
  USER_DATABASE_SETTINGS,
];

/** The settings listed by section in docs/configuration.md. */
export const LISTED_SETTINGS: readonly Setting<unknown>[] = [
  ...new Set(TABLES.flatMap((table): Setting<unknown>[] => Object.values(table))),
  ...REPLICATOR_OWN_SETTINGS,
];

/** All settings that this program uses. */
export const SETTINGS: readonly Setting<unknown>[] = [
  ...new Set([
    ...Object.values<Setting<unknown>>(START_SETTINGS),
    ...Object.values<Setting<unknown>>(LOG_SETTINGS),
    ...FILE_SETTINGS,
    ...LISTED_SETTINGS,
    ...REFUSED_SETTINGS,
    ...REPLICATOR_SETTINGS,
  ]),
];

/**
 * Returns the store that a node would open with these options. Needs no keys, because nothing
 * sealed is read. Throws a ConfigError.
 */
export function readStorePlace(
  options: ServeOptions,
  given: Environment,
): Pick<ServerConfig, "store" | "dataDirectory"> {
  const { store, dataDirectory } = readPlaces(options, withoutEmpty(given));
  return { store, dataDirectory };
}

function readPlaces(options: ServeOptions, environment: Environment) {
  checkOptions(options);
  const { sections } = options;
  const configFile = sections ? undefined : (options.configFile ?? environment.TANDEM_CONFIG);
  const file = sections ?? (configFile === undefined ? new Map() : readIni(configFile));
  const dataDirectory =
    options.dataDirectory ??
    environment.TANDEM_DATA_DIR ??
    (file.get("couchdb")?.get("database_dir") || "./data");
  checkFolder(resolve(dataDirectory));
  const storeText = options.store ?? environment.TANDEM_STORE;
  const store = START_SETTINGS.store.read(storeText ?? file.get("tandem")?.get("store"));
  return { configFile, file, dataDirectory, store };
}

export function readConfig(options: ServeOptions, given: Environment): ServerConfig {
  const environment = withoutEmpty(given);
  const { configFile, file, dataDirectory, store } = readPlaces(options, environment);
  const secrets = openKeys(environment, { file, configFile, dataDirectory, store });
  const log = environmentLog(environment);
  const givenBy = (sections: IniSections) => [
    sections,
    environmentAdmins(environment),
    ...log.map((own) => own.sections),
  ];
  const configuration = new Configuration({
    seal: secrets.ring,
    given: givenBy(file),
    readGiven: () => givenBy(configFile === undefined ? file : readIni(configFile)),
    givenNames: [configFile, "COUCHDB_USER", ...log.map(({ variable }) => variable)],
    localFile: store === "memory" ? undefined : join(resolve(dataDirectory), "local.ini"),
    settings: SETTINGS,
  });
  const replicationProcesses =
    options.replicationProcesses ??
    integer("TANDEM_REPLICATION_PROCESSES", environment, REPLICATION_PROCESSES_MAX) ??
    0;
  const types = nodeTypes(options.nodeType ?? environment.TANDEM_NODE_TYPE, environment);
  const read = <T>({ section, key, read }: Setting<T>): T => read(configuration.get(section, key));
  const config: ServerConfig = {
    port:
      options.port ?? integer("TANDEM_PORT", environment, PORT_MAX) ?? read(START_SETTINGS.port),
    bindAddress:
      options.bindAddress ?? environment.TANDEM_BIND_ADDRESS ?? read(START_SETTINGS.bindAddress),
    tls: readServerTls(configuration),
    dataDirectory,
    store,
    clusterFile: options.clusterFile ?? environment.TANDEM_CLUSTER_FILE,
    foundationDb: {
      apiVersion: read(START_SETTINGS.apiVersion) || undefined,
      headerVersion: read(START_SETTINGS.headerVersion) || undefined,
      prefix: read(START_SETTINGS.prefix) || undefined,
    },
    // If there are separate replication processes, this process does not replicate.
    nodeTypes: replicationProcesses === 0 ? types : withoutReplication(types),
    replicationProcesses,
    publicUrl: environment.TANDEM_PUBLIC_URL,
    enableFormats: read(START_SETTINGS.enableFormats),
    labels: read(START_SETTINGS.labels),
    nodeName: read(START_SETTINGS.nodeName) ?? `tandem@${hostname()}`,
    serverUuid: read(START_SETTINGS.serverUuid),
    utilitiesDirectory:
      environment.TANDEM_UTILS_DIR ?? (file.get("tandem")?.get("utils_dir") || undefined),
    secrets,
    log: logSettings(configuration),
    configuration,
  };
  if (replicationProcesses > 0 && store === "memory") {
    throw new ConfigError("--replication-processes: a store in memory cannot be shared");
  }
  if (config.nodeTypes.has("api_frontend")) checkBindAddress(config);
  return config;
}

/**
 * Throws a ConfigError if other machines can reach the address and there is no administrator. In
 * this case, every client would have the rights of an administrator.
 */
export function checkBindAddress({ bindAddress, configuration }: ServerConfig): void {
  if (isLoopback(bindAddress) || configuration.section("admins").size > 0) return;
  throw new ConfigError(
    `no administrator is configured, so the server must not listen on ${bindAddress}: set [admins] in the config file or COUCHDB_USER and COUCHDB_PASSWORD, or listen on 127.0.0.1`,
  );
}

/** Opens the available keys. The store determines which of them is used for sealing. */
function openKeys(
  environment: Environment,
  {
    file,
    configFile,
    dataDirectory,
    store,
  }: {
    readonly file: IniSections;
    readonly configFile: string | undefined;
    readonly dataDirectory: string;
    readonly store: StoreName;
  },
): ServerConfig["secrets"] {
  const { random } = createSystemRuntime();
  const source = keySource({
    environment,
    // The key file is not read from `local.ini`, because users who may change settings over HTTP
    // must not choose the key.
    namedFile: file.get("secrets")?.get("key_file") || undefined,
    configFile,
    dataDirectory,
    random,
    isLasting: store !== "memory",
  });
  const ring = new KeyRing({ random, readKeys: () => readKeys(source) });
  // Like the key file, references and identities are not read from `local.ini`. A server
  // administrator can change that file, but need not be an administrator of the machine.
  const released = SECRET_REFERENCES.read(file.get("secrets")?.get("references"));
  const files = [
    source.kind === "file" ? source.path : undefined,
    environment.TANDEM_SECRETS_KEY_FILE,
    ...KEY_FILES.map(([section, name]) => file.get(section)?.get(name)),
    // The first start might have created a key in this file. The file is protected even if another
    // key is in use now.
    `${resolve(dataDirectory)}.key`,
  ].filter((path) => path !== undefined && path !== "");
  const serverKeys = { files: files as string[], keys: () => readKeys(source) };
  const identities = parseIdentities(file.get(IDENTITIES_SECTION));
  return { source, ring, lookUp: secretLookup(environment, released, serverKeys, identities) };
}

/** Throws a ConfigError for invalid command-line options. */
function checkOptions({ replicationProcesses = 0, ...texts }: ServeOptions): void {
  if (replicationProcesses > REPLICATION_PROCESSES_MAX) {
    throw new ConfigError(
      `--replication-processes ${replicationProcesses}: expected at most ${REPLICATION_PROCESSES_MAX}`,
    );
  }
  const names = { bindAddress: "--bind-address", dataDirectory: "--data-dir" } as const;
  for (const [option, name] of Object.entries(names)) {
    if (texts[option as keyof typeof names] !== "") continue;
    throw new ConfigError(`${name}: expected a value, but it is empty`);
  }
}

/**
 * Removes empty variables, which environment files may contain, so that they count as unset. Empty
 * variables for keys are kept, because an empty key is an error.
 */
function withoutEmpty(environment: Environment): Environment {
  const isSaid = ([name, text]: [string, unknown]): boolean =>
    text !== "" || !name.startsWith("TANDEM_") || name.startsWith("TANDEM_SECRETS_");
  return Object.fromEntries(Object.entries(environment).filter(isSaid));
}

function integer(name: string, environment: Environment, max: number): number | undefined {
  const text = environment[name];
  if (text === undefined) return undefined;
  if (!/^\d+$/.test(text) || Number(text) > max) {
    throw new ConfigError(`${name} = ${text}: expected an integer of 0 to ${max}`);
  }
  return Number(text);
}

function withoutReplication(types: ReadonlySet<NodeType>): ReadonlySet<NodeType> {
  return new Set([...types].filter((type) => type !== "replication"));
}

/**
 * Returns the types of the node: both types (RFC 013), unless the option names some or the
 * environment sets one to `false`. An empty variable counts as unset.
 */
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
      const name = `COUCHDB_NODE_TYPE_${type.toUpperCase()}`;
      const text = environment[name]?.toLowerCase() || "true";
      if (text === "true" || text === "false") return text === "true";
      throw new ConfigError(`${name} = ${environment[name]}: expected true or false`);
    }),
  );
}

function environmentAdmins(environment: Environment): IniSections {
  const { COUCHDB_USER: user, COUCHDB_PASSWORD: password } = environment;
  if ((user === undefined) !== (password === undefined)) {
    throw new ConfigError("COUCHDB_USER and COUCHDB_PASSWORD: expected both or neither");
  }
  if (user === undefined || password === undefined) return new Map();
  return new Map([["admins", new Map([[user, password]])]]);
}
