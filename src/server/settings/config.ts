/**
 * The options of a node that are read at its start. The command line comes first, then the environment (`TANDEM_…`),
 * then the INI files, then the defaults. Names and meanings are CouchDB's where it has them. All other settings are
 * read live from the `configuration`.
 */
import { statSync } from "node:fs";
import { hostname } from "node:os";
import { join, resolve } from "node:path";
import { createSystemRuntime } from "../../host/index.ts";
import type { SecretLookup } from "../../replicator/index.ts";
import { KeyRing } from "../secrets/key-ring.ts";
import { type KeySource, keySource, readKeys } from "../secrets/key-source.ts";
import { secretLookup } from "../secrets/secret-lookup.ts";
import { ALERT_SETTINGS } from "./alert-settings.ts";
import { API_SETTINGS, AUTHENTICATION_SETTINGS } from "./authentication-settings.ts";
import { Configuration, readIni } from "./configuration.ts";
import { CORS_ENABLED, CORS_SETTINGS } from "./cors-settings.ts";
import { REFUSED_SETTINGS } from "./couchdb-settings.ts";
import { DATABASE_SETTINGS } from "./database-settings.ts";
import { EGRESS_SETTINGS } from "./egress-settings.ts";
import type { IniSections } from "./ini.ts";
import { LOCKOUT_SETTINGS } from "./lockout-settings.ts";
import { environmentLog, LOG_SETTINGS, type LogSettings, logSettings } from "./log-settings.ts";
import { PASSWORD_SETTINGS } from "./password-settings.ts";
import { REPLICATOR_OWN_SETTINGS, REPLICATOR_SETTINGS } from "./replicator-settings.ts";
import { ConfigError, type Setting, sectionOf } from "./settings.ts";
import { readServerTls, SERVER_TLS_SETTINGS, type ServerTls } from "./tls-settings.ts";
import { USER_DATABASE_SETTINGS } from "./user-database-settings.ts";

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
  /** `[ssl]`, on the same address; undefined: no TLS is served. */
  readonly tls: ServerTls | undefined;
  readonly dataDirectory: string;
  readonly store: StoreName;
  readonly clusterFile: string | undefined;
  /** `[foundationdb]`. */
  readonly foundationDb: {
    /** Undefined: what all supported clients speak. */
    readonly apiVersion: number | undefined;
    readonly headerVersion: number | undefined;
    /** The prefix of all keys of this store; undefined: the store has the cluster to itself. */
    readonly prefix: string | undefined;
  };
  readonly nodeTypes: ReadonlySet<NodeType>;
  /** Replication nodes in processes of their own, beside this one. */
  readonly replicationProcesses: number;
  /** Where the API of the cluster stands for others, when it is another process that serves it. */
  readonly publicUrl: string | undefined;
  /** `name@host`. */
  readonly nodeName: string;
  /** `[couchdb] uuid`: 32 hex digits, if CouchDB has made it; the same for all nodes; undefined: the store keeps one. */
  readonly serverUuid: string | undefined;
  /** `[tandem] utils_dir`: what is served below `/_utils/`. Not to be set over HTTP: it opens a folder to everybody. */
  readonly utilitiesDirectory: string | undefined;
  readonly log: LogSettings;
  /** What seals secrets in the store and in `local.ini`. */
  readonly secrets: {
    readonly ring: KeyRing;
    readonly source: KeySource;
    /** What jobs may refer to instead of naming a credential. */
    readonly lookUp: SecretLookup;
  };
  /** What can be changed while the node runs. */
  readonly configuration: Configuration;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Whether only programs on this machine can reach the address. */
export function isLoopback(address: string): boolean {
  return ["127.0.0.1", "::1", "localhost"].includes(address);
}

const PORT_MAX = 65_535;

/** Each is a Node.js of its own, of a hundred megabytes. */
const REPLICATION_PROCESSES_MAX = 256;

const AT_START = { waitsForStart: true };
const chttpd = sectionOf("chttpd", AT_START);
const couchdb = sectionOf("couchdb", AT_START);
const tandem = sectionOf("tandem", AT_START);
const foundationDb = sectionOf("foundationdb", AT_START);
const secretSettings = sectionOf("secrets", AT_START);

/** Read at the start, and only where neither command line nor environment says otherwise. */
export const START_SETTINGS = {
  port: chttpd.integer("port", 5984, {
    min: 0,
    max: PORT_MAX,
    meaning: "port to listen on; 0 picks a free one",
  }),
  bindAddress: chttpd.text("bind_address", "127.0.0.1", {
    meaning: "address to listen on; anything but loopback needs an administrator",
  }),
  store: tandem.choice("store", "lmdb", ["lmdb", "memory", "foundationdb"], {
    meaning: "engine of the store; `memory`: nothing is kept",
  }),
  nodeName: tandem.text("node_name", undefined, {
    defaultWords: "`tandem@` and the host name",
    meaning: "how `_scheduler` names the node",
  }),
  serverUuid: couchdb.text("uuid", undefined, {
    defaultWords: "drawn once",
    meaning:
      "one for all nodes, 32 hex digits as CouchDB draws it, or whatever a CouchDB has whose place it takes; part of replication ids",
  }),
  /** 0: the version that all supported clients speak. */
  apiVersion: foundationDb.integer("api_version", 0, {
    min: 0,
    meaning: "version of the API that the client library is asked for",
  }),
  headerVersion: foundationDb.integer("header_version", 0, {
    min: 0,
    meaning: "version that the package is told it was built with",
  }),
  prefix: foundationDb.text("prefix", undefined, {
    meaning: "any text, which precedes every key of the store",
  }),
};

/** References that jobs may use, as administrators of the server allow; `*` at the end for all that begin so. */
const SECRET_REFERENCES = secretSettings.list(
  "references",
  ["env:CREDENTIAL_*", "file:/run/secrets/*"],
  {
    meaning:
      "the references that jobs may have instead of credentials, with commas between them, `*` at the end for all that begin so",
  },
);

/** Settings that name files of this server's own keys. */
const KEY_FILES = [
  ["secrets", "key_file"],
  ["ssl", "key_file"],
  ["replicator", "key_file"],
] as const;

/** Read from the file that is given alone: who may change settings over HTTP must not choose what the node opens. */
export const FILE_SETTINGS: readonly Setting<unknown>[] = [
  couchdb.text("database_dir", undefined, {
    defaultWords: "./data",
    meaning: "folder of the embedded store",
  }),
  secretSettings.text("key_file", undefined, {
    meaning: "the key that seals secrets in the store",
  }),
  tandem.text("utils_dir", undefined, {
    meaning: "folder of a program for browsers, served below `/_utils/`",
  }),
  SECRET_REFERENCES,
];

/** Throws a ConfigError for a path that leads to or through a file. A folder that is not there is made later. */
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
  throw new ConfigError(`data folder ${dataDirectory}: a file is in its place, or above it`);
}

const TABLES = [
  ALERT_SETTINGS,
  AUTHENTICATION_SETTINGS,
  API_SETTINGS,
  { isEnabled: CORS_ENABLED },
  CORS_SETTINGS,
  DATABASE_SETTINGS,
  EGRESS_SETTINGS,
  LOCKOUT_SETTINGS,
  PASSWORD_SETTINGS,
  SERVER_TLS_SETTINGS,
  USER_DATABASE_SETTINGS,
];

/** The settings that docs/configuration.md lists by section. */
export const LISTED_SETTINGS: readonly Setting<unknown>[] = [
  ...new Set(TABLES.flatMap((table): Setting<unknown>[] => Object.values(table))),
  ...REPLICATOR_OWN_SETTINGS,
];

/** All that this program has a use for. */
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

/** Which store a node opens that is started so. What is sealed is not looked at, so no key is needed. Throws a ConfigError. */
export function readStorePlace(
  options: ServeOptions,
  given: Environment,
): Pick<ServerConfig, "store" | "dataDirectory"> {
  const { store, dataDirectory } = readPlaces(options, withoutEmpty(given));
  return { store, dataDirectory };
}

function readPlaces(options: ServeOptions, environment: Environment) {
  checkOptions(options);
  const configFile = options.configFile ?? environment.TANDEM_CONFIG;
  const file: IniSections = configFile === undefined ? new Map() : readIni(configFile);
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
  const configuration = new Configuration({
    seal: secrets.ring,
    given: [file, environmentAdmins(environment), ...log.map(({ sections }) => sections)],
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
    // With processes that replicate, this one does not.
    nodeTypes: replicationProcesses === 0 ? types : withoutReplication(types),
    replicationProcesses,
    publicUrl: environment.TANDEM_PUBLIC_URL,
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
  const isOpen = config.nodeTypes.has("api_frontend") && !isLoopback(config.bindAddress);
  if (isOpen && configuration.section("admins").size === 0) {
    throw new ConfigError(
      `bind address ${config.bindAddress} without an administrator: set [admins] in the config file or COUCHDB_USER and COUCHDB_PASSWORD, or serve 127.0.0.1`,
    );
  }
  return config;
}

/** The keys that are given; which of them seals, the store says. */
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
    // Not read from `local.ini`: whoever may change settings over HTTP must not choose the key.
    namedFile: file.get("secrets")?.get("key_file") || undefined,
    configFile,
    dataDirectory,
    random,
    isLasting: store !== "memory",
  });
  const ring = new KeyRing({ random, readKeys: () => readKeys(source) });
  // Not read from `local.ini` either: an administrator of the server need not be one of the machine.
  const released = SECRET_REFERENCES.read(file.get("secrets")?.get("references"));
  const files = [
    source.kind === "file" ? source.path : undefined,
    environment.TANDEM_SECRETS_KEY_FILE,
    ...KEY_FILES.map(([section, name]) => file.get(section)?.get(name)),
    // Where a first start makes a key, also if another one is in use now.
    `${resolve(dataDirectory)}.key`,
  ].filter((path) => path !== undefined && path !== "");
  const serverKeys = { files: files as string[], keys: () => readKeys(source) };
  return { source, ring, lookUp: secretLookup(environment, released, serverKeys) };
}

/** Throws a ConfigError for what the command line must not say. */
function checkOptions({ replicationProcesses = 0, ...texts }: ServeOptions): void {
  if (replicationProcesses > REPLICATION_PROCESSES_MAX) {
    throw new ConfigError(
      `--replication-processes ${replicationProcesses}: expected ${REPLICATION_PROCESSES_MAX} at most`,
    );
  }
  const names = { bindAddress: "--bind-address", dataDirectory: "--data-dir" } as const;
  for (const [option, name] of Object.entries(names)) {
    if (texts[option as keyof typeof names] !== "") continue;
    throw new ConfigError(`${name}: expected a value, and it is empty`);
  }
}

/** A variable that is there and empty, as files of environments have it, says nothing. A key that is empty is an error. */
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

/** RFC 013: both types unless the option names some, or the environment says `false`. A variable that is empty says nothing. */
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
