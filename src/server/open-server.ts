/**
 * The composition root: makes the parts of a node, joins them, starts and stops them in order.
 *
 * Start: store, layout, databases with the replicator's hook, queue, API, services. Stop: no new requests and no new jobs;
 * running jobs write a last checkpoint and go back to the queue; then the store.
 */
import { createApi } from "../api/index.ts";
import { assert, errorCode, type Runtime, type Trace } from "../base/index.ts";
import type { DatabaseRegistry } from "../databases/index.ts";
import {
  createSystemRuntime,
  type NodeServer,
  openNodeServer,
  openUndiciFetch,
  parseMultipart,
  SandboxPool,
  StaticFolder,
} from "../host/index.ts";
import { ActivityMonitor, WorkerWatch } from "../jobs/index.ts";
import type { KeyValueStore } from "../kv/index.ts";
import { REPLICATION_JOB_TYPE } from "../replicator/index.ts";
import { AttachmentReclaimer } from "./attachment-reclaimer.ts";
import { openLayout, sessionSecret } from "./layout.ts";
import { CountReporter } from "./metrics/count-reporter.ts";
import { type CountReport, EventCounts, Metrics } from "./metrics/metrics.ts";
import { joinNodeParts, joinReplication } from "./node-parts.ts";
import { type OpenedStore, openStore } from "./open-store.ts";
import { ReplicationProcess, type StartProcess } from "./replication-process.ts";
import { routes } from "./routes.ts";
import { apiSettings, authenticationSettings } from "./settings/authentication-settings.ts";
import { isLoopback, type ServerConfig } from "./settings/config.ts";
import { ConfigurationRefresher } from "./settings/configuration-refresher.ts";
import { corsSettings } from "./settings/cors-settings.ts";
import { designFunctions, securityDefault } from "./settings/database-settings.ts";
import { MaskedConfiguration } from "./settings/node-configuration.ts";
import { passwordSettings } from "./settings/password-settings.ts";
import { QueueSettings } from "./settings/queue-settings.ts";
import { REPLICATOR_SECTION, replicatorConfig } from "./settings/replicator-settings.ts";
import { type Service, supervise } from "./supervise.ts";
import { Authentication } from "./users/authentication.ts";
import { SessionCookies } from "./users/session-cookies.ts";
import { UserDirectory } from "./users/user-directory.ts";
import { hashPasswords } from "./users/user-passwords.ts";
import { usersHook } from "./users/users-hook.ts";
import { VERSION } from "./version.ts";

/** Databases that are always there, as CouchDB's set-up makes them. */
const SYSTEM_DATABASES = ["_replicator", "_users"];
/** CouchDB's API version that we answer with. */
const COUCHDB_VERSION = "3.5.0";

export interface RunningServer {
  /** `http://HOST:PORT`; undefined for a node that serves no API. */
  readonly url: string | undefined;
  readonly administrators: boolean;
  /** Stops in good order. Safe to call twice. */
  stop(): Promise<void>;
}

/** The processes of this program around this one. */
export interface ProcessFamily {
  /** Runs the program once more, as a replication node beside this one; only needed if the config wants some. */
  readonly startProcess?: StartProcess;
  /** Given when this process was started so: takes what it counted to the one that started it. */
  readonly tellParent?: ((report: CountReport) => void) | undefined;
}

export async function openServer(
  config: ServerConfig,
  trace: Trace,
  family: ProcessFamily = {},
): Promise<RunningServer> {
  const counts = new EventCounts(trace);
  const runtime = createSystemRuntime(counts);
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
  { kv, renewer }: OpenedStore,
  config: ServerConfig,
  {
    counts,
    family: { startProcess, tellParent },
  }: { readonly counts: EventCounts; readonly family: ProcessFamily },
): Promise<RunningServer> {
  const { configuration } = config;
  const serverUuid = await openLayout(runtime, kv, config.serverUuid);
  const settings = authenticationSettings(configuration);
  const passwords = passwordSettings(configuration);
  const urlOf = (port: number): string => `http://${config.bindAddress}:${port}/`;
  // Ids must not change from start to start, so a port that the system picks is no part of them.
  const ids = {
    digests: runtime.digests,
    serverUuid,
    hostName: config.nodeName.replace(/^.*@/, ""),
    port: config.port,
    serverUrl: urlOf(config.port === 0 ? 5984 : config.port),
  };
  const parts = joinNodeParts({
    runtime,
    kv,
    ids,
    config: replicatorConfig(configuration),
    hooks: [usersHook({ settings, limits: passwords })],
    securityDefault: securityDefault(configuration),
  });
  const { jobs, databases, attachments, replicator, budgets } = parts;
  const sandbox = new SandboxPool(runtime);
  const functions = designFunctions(sandbox, configuration);
  const users = new UserDirectory({ kv, databases, configuration, passwords });
  const cookies = new SessionCookies(settings, runtime.clock, await sessionSecret(runtime, kv));
  const authentication = new Authentication({
    configuration,
    settings,
    users,
    cookies,
    clock: runtime.clock,
    allowsParty: isLoopback(config.bindAddress),
  });
  let shownUrl = config.publicUrl ?? ids.serverUrl;
  await replicator.prepare();
  for (const name of SYSTEM_DATABASES) await ensureDatabase(kv, databases, name);

  let nodeServer: NodeServer | undefined;
  if (config.nodeTypes.has("api_frontend")) {
    const api = createApi({
      runtime,
      kv,
      databases,
      attachments,
      parseMultipart,
      functions,
      authenticate: (request) => authentication.authenticate(request),
      server: {
        version: COUCHDB_VERSION,
        vendor: { name: "Tandem", version: VERSION },
        uuid: serverUuid,
        nodeName: config.nodeName,
      },
      isUp: () => kv.isAvailable(),
      settings: apiSettings(configuration),
      cors: corsSettings(configuration),
      utilities:
        config.utilitiesDirectory === undefined
          ? undefined
          : new StaticFolder(config.utilitiesDirectory),
      hashPasswords: (edits) => hashPasswords(edits, passwords),
      routes: routes({
        kv,
        jobs,
        databases,
        replicator,
        budgets,
        authentication,
        cookies,
        configuration: new MaskedConfiguration(configuration, passwords),
        metrics: new Metrics({ clock: runtime.clock, kv, jobs, counts }),
        nodeName: config.nodeName,
        shownUrl: () => shownUrl,
      }),
    });
    const { port, bindAddress } = config;
    nodeServer = await openNodeServer({ port, bindAddress, api, trace: runtime.trace });
    shownUrl = urlOf(nodeServer.port);
  }

  const undici = openUndiciFetch({ idleMsMax: () => parts.config.connectionCloseMs });
  const services: Service[] = [
    new ActivityMonitor(runtime, kv, jobs, REPLICATION_JOB_TYPE),
    new AttachmentReclaimer(runtime, kv, databases, attachments),
    budgets,
    parts.removedDatabases,
    parts.cleanUp,
    new ConfigurationRefresher(runtime, configuration),
    new QueueSettings(configuration, replicator),
  ];
  if (config.replicationProcesses > 0) {
    assert(startProcess !== undefined, "Who wants further processes says how one is started");
    for (let number = 1; number <= config.replicationProcesses; number++) {
      const onCounted = (report: unknown): void => counts.absorb(report as CountReport);
      services.push(new ReplicationProcess(number, () => startProcess(shownUrl, onCounted)));
    }
  }
  if (tellParent !== undefined) services.push(new CountReporter(runtime.clock, counts, tellParent));
  if (config.nodeTypes.has("replication")) {
    const { outages, scheduler } = joinReplication(parts, {
      reach: {
        functions,
        resolveUser: (userName) => users.resolve(userName),
        limits: apiSettings(configuration),
        serverUrl: shownUrl,
        fetch: undici.fetch,
        parseMultipart,
        userAgent: `Tandem/${VERSION}`,
      },
      renewer,
      nodeName: config.nodeName,
      processId: String(process.pid),
    });
    configuration.watch(REPLICATOR_SECTION, () => scheduler.settingsChanged());
    services.push(outages, scheduler);
  } else {
    services.push(new WorkerWatch(parts, parts.config.workerLeaseSec * 1000));
  }
  const stopping = new AbortController();
  const supervised = supervise(runtime, services, stopping.signal);
  let stopped: Promise<void> | undefined;
  return {
    url: nodeServer && shownUrl.replace(/\/$/, ""),
    administrators: configuration.section("admins").size > 0,
    stop: () => {
      stopped ??= (async () => {
        stopping.abort(new Error("The node is stopping"));
        await nodeServer?.close();
        await supervised;
        await undici.close();
        await sandbox.close();
        await kv.close();
      })();
      return stopped;
    },
  };
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
