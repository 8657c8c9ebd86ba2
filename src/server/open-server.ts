/**
 * Opens a node: makes its parts, joins them, starts and stops them in order.
 *
 * Start: store, layout, databases with the replicator's hook, queue, API, services. Stop: no new
 * requests and no new jobs; running jobs write a last checkpoint and go back to the queue; then the
 * store closes.
 */
import { setMaxListeners } from "node:events";
import { isIPv6 } from "node:net";
import { fileURLToPath } from "node:url";
import { createApi, pausingOf, UuidSource } from "../api/index.ts";
import {
  AssertionError,
  assert,
  errorCode,
  type Runtime,
  type Spans,
  type Trace,
} from "../base/index.ts";
import type { DatabaseRegistry } from "../databases/index.ts";
import {
  createSystemRuntime,
  openUndiciFetch,
  parseMultipart,
  processMeter,
  SandboxPool,
  StaticFolder,
} from "../host/index.ts";
import type { Fetch } from "../http-client/index.ts";
import { ActivityMonitor, type LeaseRenewer, WorkerWatch } from "../jobs/index.ts";
import type { KeyValueStore } from "../kv/index.ts";
import {
  AlertWatch,
  AskedQuestions,
  Endpoints,
  ReplicationChecks,
  RulePlans,
} from "../replicator/index.ts";
import { AlertSender } from "./alerts/alert-sender.ts";
import {
  openLayout,
  renewSessionSecret,
  SUBSPACES,
  sessionSecret,
  USER_DATABASES_KEY,
} from "./layout.ts";
import { type Listening, listen } from "./listen.ts";
import { CountReporter } from "./metrics/count-reporter.ts";
import { type CountReport, EventCounts, Metrics } from "./metrics/metrics.ts";
import { ALL_JOB_TYPES, joinNodeParts, joinReplication } from "./node-parts.ts";
import { type OpenedStore, openStore } from "./open-store.ts";
import { Reclaimer } from "./reclaimer.ts";
import { ReplicationProcess, type StartProcess } from "./replication-process.ts";
import { routes } from "./routes.ts";
import { KeyFollower } from "./secrets/key-follower.ts";
import { establishKeys } from "./secrets/key-record.ts";
import { Rotation } from "./secrets/rotation.ts";
import { alertSettings } from "./settings/alert-settings.ts";
import { apiSettings, authenticationSettings } from "./settings/authentication-settings.ts";
import { FILE_SETTINGS, isLoopback, type ServerConfig } from "./settings/config.ts";
import { ConfigurationRefresher } from "./settings/configuration-refresher.ts";
import { corsSettings } from "./settings/cors-settings.ts";
import { designFunctions, keepOldBodiesMs, securityDefault } from "./settings/database-settings.ts";
import { egressRules } from "./settings/egress-settings.ts";
import { lockoutSettings } from "./settings/lockout-settings.ts";
import { MaskedConfiguration } from "./settings/node-configuration.ts";
import { passwordSettings } from "./settings/password-settings.ts";
import { QueueSettings } from "./settings/queue-settings.ts";
import { REPLICATOR_SECTION, replicatorConfig } from "./settings/replicator-settings.ts";
import { announceIneffectiveSettings } from "./settings/settings-advice.ts";
import { userDatabaseSettings } from "./settings/user-database-settings.ts";
import { type Service, supervise } from "./supervise.ts";
import { Authentication } from "./users/authentication.ts";
import { LoginLockout } from "./users/login-lockout.ts";
import { SessionCookies } from "./users/session-cookies.ts";
import { UserDatabases } from "./users/user-databases.ts";
import { UserDirectory } from "./users/user-directory.ts";
import { hashPasswords } from "./users/user-passwords.ts";
import { usersHook } from "./users/users-hook.ts";
import { VERSION } from "./version.ts";

/**
 * The built dashboard, two folders up from `src/server` and one from `dist/server` and
 * `dist/program`.
 */
const DASHBOARD_DIRECTORY = fileURLToPath(
  new URL(
    import.meta.url.endsWith(".ts") ? "../../dist/dashboard" : "../dashboard",
    import.meta.url,
  ),
);
/** Databases that always exist, as after CouchDB's set-up. */
const SYSTEM_DATABASES = ["_replicator", "_users"];
/** CouchDB version reported to clients. */
const COUCHDB_VERSION = "3.5.0";

export interface RunningServer {
  /** `http://HOST:PORT`; absent for a node without an API. */
  readonly url: string | undefined;
  /** `https://HOST:PORT`; absent without TLS. */
  readonly tlsUrl: string | undefined;
  readonly administrators: boolean;
  /**
   * Resolves when the store can no longer serve this process, which must then end and may be
   * restarted.
   */
  readonly failed: Promise<Error>;
  /** Shuts down gracefully. Idempotent. */
  stop(): Promise<void>;
}

/** Parent and child processes of this one. */
export interface ProcessFamily {
  /**
   * Starts the program again as a replication node; required only if the configuration asks for
   * one.
   */
  readonly startProcess?: StartProcess;
  /** Set in a child process: sends its counts to the parent. */
  readonly tellParent?: ((report: CountReport) => void) | undefined;
}

export async function openServer(
  config: ServerConfig,
  trace: Trace,
  family: ProcessFamily = {},
  spans?: Spans,
): Promise<RunningServer> {
  const counts = new EventCounts(trace, createSystemRuntime().clock);
  const runtime = createSystemRuntime(counts, spans);
  const store = await openStore(runtime, config);
  try {
    return await startNode(runtime, store, config, { counts, family });
  } catch (error) {
    await store.kv.close();
    throw error;
  }
}

async function startNode(
  runtime: Runtime,
  store: OpenedStore,
  config: ServerConfig,
  { counts, family }: { readonly counts: EventCounts; readonly family: ProcessFamily },
): Promise<RunningServer> {
  // In a child process, the parent reports them.
  if (family.tellParent === undefined) {
    announceIneffectiveSettings(config.configuration, FILE_SETTINGS, runtime.trace);
  }
  const node = await assembleNode(runtime, store, config, counts);
  const { kv, parts, sandbox, shown } = node;
  await parts.replicator.prepare();
  for (const name of SYSTEM_DATABASES) await ensureDatabase(kv, parts.databases, name);
  const connections = openConnections(node);
  const isFrontend = config.nodeTypes.has("api_frontend");
  const asking = isFrontend ? askingParts(node, connections.fetch) : undefined;
  const listening = asking && (await serveApi(node, asking));
  if (listening !== undefined) shown.url = urlOf(config, listening.port);
  const services = [
    ...commonServices(node),
    ...(listening?.services ?? []),
    ...familyServices(node, family),
    ...jobServices(node, store.renewer, connections.fetch),
  ];
  const stopping = new AbortController();
  // Every service waits for it.
  setMaxListeners(0, stopping.signal);
  const supervised = supervise(runtime, services, stopping.signal, (error) => {
    return errorCode(error) === "KV_UNAVAILABLE" && (kv.isFull() || !kv.isAvailable());
  });
  let stopped: Promise<void> | undefined;
  return {
    url: listening && shown.url.replace(/\/$/, ""),
    tlsUrl: listening?.tlsPort === undefined ? undefined : tlsUrlOf(config, listening.tlsPort),
    administrators: config.configuration.section("admins").size > 0,
    failed: kv.failed,
    stop: () => {
      stopped ??= (async () => {
        stopping.abort(new Error("The node is stopping"));
        await listening?.close();
        await supervised;
        await connections.close();
        await sandbox.close();
        await kv.close();
      })();
      return stopped;
    },
  };
}

/** Connections to other servers: only nodes that replicate open any (RFC 016). */
function openConnections({ config, parts }: AssembledNode): {
  readonly fetch: Fetch;
  close(): Promise<void>;
} {
  if (!config.nodeTypes.has("replication")) {
    const refusal = new AssertionError("A node that only serves opens no connections to others");
    return { fetch: () => Promise.reject(refusal), close: async () => {} };
  }
  return openUndiciFetch({
    idleMsMax: () => parts.config.connectionCloseMs,
    egressRules: egressRules(config.configuration),
  });
}

/** A node that is assembled but not running. */
type AssembledNode = Awaited<ReturnType<typeof assembleNode>>;

async function assembleNode(
  runtime: Runtime,
  { kv }: OpenedStore,
  config: ServerConfig,
  counts: EventCounts,
) {
  const { configuration } = config;
  const ids = replicationIds(runtime, config, await openLayout(runtime, kv, config.serverUuid));
  const { ring: seal, source } = config.secrets;
  await establishKeys({ random: runtime.random, kv, ring: seal, source });
  const sandbox = new SandboxPool(runtime);
  const functions = designFunctions(runtime, sandbox, configuration);
  const parts = joinNodeParts({
    seal,
    runtime,
    kv,
    functions,
    ids,
    config: replicatorConfig(configuration),
    hooks: [
      usersHook({
        settings: authenticationSettings(configuration),
        limits: passwordSettings(configuration),
      }),
    ],
    securityDefault: securityDefault(configuration),
    keepOldBodiesMs: keepOldBodiesMs(configuration),
    nodeName: config.nodeName,
  });
  const rotation = new Rotation({
    ...parts,
    ring: seal,
    source,
    isSharedStore: config.store === "foundationdb",
    renewOthers: async () => {
      const isRenewed = await kv.transact((tx) => renewSessionSecret(tx, seal), {
        whenUnknown: "retry",
      });
      const renewedRules = await parts.replicator.rules.renewSeals();
      return Number(isRenewed) + renewedRules + configuration.renewSecrets();
    },
  });
  return {
    rotation,
    reclaimer: new Reclaimer({ ...parts, keepOldBodiesMs: keepOldBodiesMs(configuration) }),
    runtime,
    kv,
    config,
    counts,
    parts,
    sandbox,
    functions,
    accounts: await openAccounts(runtime, kv, config, parts.databases),
    /** External URL of the node's API; final once it listens. */
    shown: { url: config.publicUrl ?? ids.serverUrl },
  };
}

function urlOf(config: ServerConfig, port: number): string {
  return `http://${hostOf(config)}:${port}/`;
}

function tlsUrlOf(config: ServerConfig, port: number): string {
  return `https://${hostOf(config)}:${port}`;
}

/** In URL form. */
function hostOf({ bindAddress }: ServerConfig): string {
  return isIPv6(bindAddress) ? `[${bindAddress}]` : bindAddress;
}

/** Ids must not change between starts, so they do not include a port chosen by the system. */
function replicationIds({ digests }: Runtime, config: ServerConfig, serverUuid: string) {
  const hostName = config.nodeName.replace(/^.*@/, "");
  const serverUrl = urlOf(config, config.port === 0 ? 5984 : config.port);
  return { digests, serverUuid, hostName, port: config.port, serverUrl };
}

/** Users, and how they are authenticated. */
async function openAccounts(
  runtime: Runtime,
  kv: KeyValueStore,
  { configuration, bindAddress, secrets }: ServerConfig,
  databases: DatabaseRegistry,
) {
  const settings = authenticationSettings(configuration);
  const passwords = passwordSettings(configuration);
  const users = new UserDirectory({ kv, databases, configuration, passwords });
  const secret = await sessionSecret(runtime, kv, secrets.ring);
  const { clock } = runtime;
  const cookies = new SessionCookies(settings, clock, secret);
  const allowsParty = isLoopback(bindAddress);
  const authentication = new Authentication({
    configuration,
    settings,
    users,
    cookies,
    lockout: new LoginLockout(lockoutSettings(configuration), runtime),
    clock,
    allowsParty,
  });
  return { passwords, users, cookies, authentication };
}

/** Starts listening. */
function serveApi(node: AssembledNode, asking: ReturnType<typeof askingParts>): Promise<Listening> {
  const { runtime, kv, config, parts, functions, accounts, reclaimer } = node;
  const { configuration, utilitiesDirectory: utilities } = config;
  const settings = apiSettings(configuration);
  const api = createApi({
    runtime,
    kv,
    databases: parts.databases,
    attachments: parts.attachments,
    indexes: parts.indexes,
    indexBuilds: parts.indexBuilds,
    parseMultipart,
    functions,
    authenticate: (request) => accounts.authentication.authenticate(request),
    server: {
      version: COUCHDB_VERSION,
      vendor: { name: "Tandem", version: VERSION },
      uuid: parts.ids.serverUuid,
      nodeName: config.nodeName,
    },
    isUp: () => kv.isAvailable(),
    isFull: () => kv.isFull(),
    settings,
    uuids: new UuidSource(runtime, settings),
    cors: corsSettings(configuration),
    haltedRuns: parts.halted,
    utilities: utilities === undefined ? undefined : new StaticFolder(utilities),
    dashboard: new StaticFolder(DASHBOARD_DIRECTORY),
    pausingOf,
    compaction: reclaimer,
    hashPasswords: (edits) => hashPasswords(edits, accounts.passwords),
    routes: ownRoutes(node, asking),
  });
  return listen(runtime, config, api);
}

/** Routes other than those of databases and documents. */
function ownRoutes(node: AssembledNode, asking: ReturnType<typeof askingParts>) {
  const { runtime, kv, config, counts, parts, accounts, shown, rotation } = node;
  const { configuration, nodeName } = config;
  const { jobs, databases, indexBuilds, replicator, budgets } = parts;
  return routes({
    indexBuilds,
    runtime,
    kv,
    jobs,
    databases,
    replicator,
    budgets,
    ...asking,
    authentication: accounts.authentication,
    cookies: accounts.cookies,
    configuration: new MaskedConfiguration(configuration, accounts.passwords),
    metrics: new Metrics({ clock: runtime.clock, kv, jobs, replicator, counts }),
    nodeName,
    secrets: rotation,
    shownUrl: () => shown.url,
  });
}

/**
 * Checks endpoints when replications and rules are created. A node that runs no jobs delegates this
 * to another.
 */
function askingParts(node: AssembledNode, fetch: Fetch) {
  const { parts, shown } = node;
  const { rules } = parts.replicator;
  const endpoints = new Endpoints({
    ...parts,
    ...reachOf(node, fetch),
    // Final once the node listens.
    get serverUrl() {
      return shown.url;
    },
    spendingFor: (address) => parts.budgets.spendingFor(address),
  });
  const rulePlans = new RulePlans({ ...parts, rules, endpoints });
  if (!node.config.nodeTypes.has("replication")) {
    const asked = new AskedQuestions({ ...parts, rules, plans: rulePlans });
    return { checks: asked, rulePlans: asked };
  }
  return { checks: new ReplicationChecks({ ...parts, endpoints }), rulePlans };
}

/** Access of the node to databases, local and remote. */
function reachOf({ config, functions, accounts, shown }: AssembledNode, fetch: Fetch) {
  return {
    functions,
    resolveUser: (userName: string | null) => accounts.users.resolve(userName),
    documentLimits: apiSettings(config.configuration),
    serverUrl: shown.url,
    fetch,
    parseMultipart,
    userAgent: `Tandem/${VERSION}`,
    lookUpSecret: config.secrets.lookUp,
  };
}

/** Services of every node, whether it serves requests, runs jobs, or both. */
function commonServices({
  runtime,
  kv,
  config,
  parts,
  rotation,
  reclaimer,
}: AssembledNode): Service[] {
  const { jobs, databases, replicator, budgets } = parts;
  return [
    ...ALL_JOB_TYPES.map((type) => new ActivityMonitor(runtime, kv, jobs, type)),
    reclaimer,
    budgets,
    parts.removedDatabases,
    parts.remover,
    parts.cleanUp,
    parts.indexFolder,
    new ConfigurationRefresher(runtime, config.configuration),
    new QueueSettings(config.configuration, replicator),
    new KeyFollower(runtime, kv, config.secrets.ring, () => config.configuration.renewSecrets()),
    rotation,
    new UserDatabases({
      runtime,
      kv,
      databases,
      configuration: config.configuration,
      settings: userDatabaseSettings(config.configuration),
      progressKey: USER_DATABASES_KEY,
    }),
  ];
}

/** Child processes, and reports to the parent. */
function familyServices(
  { runtime, config, counts, shown }: AssembledNode,
  { startProcess, tellParent }: ProcessFamily,
): Service[] {
  const services: Service[] = [];
  if (config.replicationProcesses > 0) {
    assert(startProcess !== undefined, "Who wants further processes says how one is started");
    for (let number = 1; number <= config.replicationProcesses; number++) {
      const onCounted = (told: unknown): void => {
        const report = told as CountReport;
        counts.absorb(report);
        runtime.trace.event("counts.told", { rowCount: report.length });
      };
      services.push(new ReplicationProcess(number, () => startProcess(shown.url, onCounted)));
    }
  }
  if (tellParent !== undefined) services.push(new CountReporter(runtime.clock, counts, tellParent));
  return services;
}

/**
 * On a replication node, the services that run jobs; on any other, the one that detects that no
 * node runs them any more.
 */
function jobServices(node: AssembledNode, renewer: LeaseRenewer, fetch: Fetch): Service[] {
  const { config, counts, parts } = node;
  if (!config.nodeTypes.has("replication")) {
    return [new WorkerWatch(parts, parts.config.workerLeaseSec * 1000)];
  }
  const { configuration, nodeName } = config;
  const { outages, clockSteps, scheduler, backlogWatch, nodeReporter } = joinReplication(parts, {
    reach: reachOf(node, fetch),
    renewer,
    nodeName,
    processId: String(process.pid),
    version: VERSION,
    measureProcess: processMeter(),
    measureRuns: () => counts.runs.totals,
  });
  configuration.watch(REPLICATOR_SECTION, () => scheduler.settingsChanged());
  return [outages, clockSteps, scheduler, backlogWatch, nodeReporter, alertSender(node, fetch)];
}

/** On each replication node with a receiver; they take turns. */
function alertSender({ runtime, kv, config, parts, shown }: AssembledNode, fetch: Fetch): Service {
  const settings = alertSettings(config.configuration);
  const { events, index, databases, replicator } = parts;
  const subspace = SUBSPACES.replicator;
  const watch = new AlertWatch({ runtime, kv, subspace, events, index, settings });
  const jobs = { kv, databases, replicator, shownUrl: () => shown.url };
  return new AlertSender({ runtime, watch, settings, jobs, fetch, userAgent: `Tandem/${VERSION}` });
}

async function ensureDatabase(
  kv: KeyValueStore,
  databases: DatabaseRegistry,
  name: string,
): Promise<void> {
  try {
    await kv.transact((tx) => databases.create(tx, name));
  } catch (error) {
    if (errorCode(error) !== "STORE_DATABASE_EXISTS") throw error;
  }
}
