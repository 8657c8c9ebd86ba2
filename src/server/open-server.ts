/**
 * Opens a node: creates and connects its parts, then starts and stops them in order.
 *
 * A node opens its store, layout, databases with the replicator's hook, queue and API, and then
 * starts its services. A node that stops accepts no new requests and starts no new jobs. Running
 * jobs write a last checkpoint and return to the queue. Then the store closes.
 */
import { setMaxListeners } from "node:events";
import type { Api } from "../api/index.ts";
import {
  AssertionError,
  assert,
  errorCode,
  type Runtime,
  type Spans,
  type Trace,
} from "../base/index.ts";
import { createSystemRuntime, openUndiciFetch } from "../host/index.ts";
import type { Fetch } from "../http-client/index.ts";
import type { Endpoints } from "../replicator/index.ts";
import { type AssembledNode, assembleNode, ensureSystemDatabases } from "./assemble-node.ts";
import { SUBSPACES } from "./layout.ts";
import { type Listening, listen } from "./listen.ts";
import { EventCounts } from "./metrics/metrics.ts";
import {
  commonServices,
  familyServices,
  jobServices,
  type ProcessFamily,
} from "./node-services.ts";
import { tlsUrlOf, urlOf } from "./node-urls.ts";
import { type OpenedStore, openStore } from "./open-store.ts";
import { askingParts, nodeApi, openEndpoints } from "./serve-api.ts";
import { FILE_SETTINGS, type ServerConfig } from "./settings/config.ts";
import { connectTo, egressRules } from "./settings/egress-settings.ts";
import { announceIneffectiveSettings } from "./settings/settings-advice.ts";
import { type Service, supervise } from "./supervise.ts";

export interface RunningServer {
  /** `http://HOST:PORT`; absent for a node without an API. */
  readonly url: string | undefined;
  /** `https://HOST:PORT`; absent without TLS. */
  readonly tlsUrl: string | undefined;
  readonly administrators: boolean;
  /**
   * Resolves when the store can no longer serve this process. The process must then end. A new
   * process can open the store.
   */
  readonly failed: Promise<Error>;
  /** Shuts down gracefully. Idempotent. */
  stop(): Promise<void>;
}

/** Options of a node apart from its configuration. */
export interface NodeOptions {
  readonly family?: ProcessFamily;
  readonly spans?: Spans | undefined;
}

/**
 * An assembled node. It runs jobs after `start` was called, and accepts requests after `listen`.
 */
export interface OpenedNode {
  readonly parts: AssembledNode;
  /** The API; undefined for a node that serves none. */
  readonly api: Api | undefined;
  readonly store: OpenedStore;
  /** Opens the endpoints of replications that the caller runs. */
  readonly endpoints: Endpoints;
  /** Starts the services of the node, and additional services of the caller. */
  start(more?: readonly Service[]): void;
  /** Opens the ports. Rejects with the errors of `listen` in `listen.ts`. */
  listen(config?: ServerConfig): Promise<Listening>;
  /** Shuts down gracefully. Idempotent. */
  stop(): Promise<void>;
}

/** Opens a node that listens and runs jobs. */
export async function openServer(
  config: ServerConfig,
  trace: Trace,
  family: ProcessFamily = {},
  spans?: Spans,
): Promise<RunningServer> {
  const node = await openNode(config, trace, { family, spans });
  const { shown, kv } = node.parts;
  let listening: Listening | undefined;
  try {
    if (node.api !== undefined) listening = await node.listen();
    node.start();
  } catch (error) {
    await node.stop();
    throw error;
  }
  return {
    url: listening && shown.url.replace(/\/$/, ""),
    tlsUrl: listening?.tlsPort === undefined ? undefined : tlsUrlOf(config, listening.tlsPort),
    administrators: config.configuration.section("admins").size > 0,
    failed: kv.failed,
    stop: () => node.stop(),
  };
}

/** Opens a node that neither listens nor runs jobs yet. */
export async function openNode(
  config: ServerConfig,
  trace: Trace,
  { family = {}, spans }: NodeOptions = {},
): Promise<OpenedNode> {
  const counts = new EventCounts(trace, createSystemRuntime().clock);
  const runtime = createSystemRuntime(counts, spans);
  const store = await openStore(runtime, config);
  try {
    return await prepareNode(runtime, store, config, { counts, family });
  } catch (error) {
    await store.kv.close();
    throw error;
  }
}

async function prepareNode(
  runtime: Runtime,
  store: OpenedStore,
  config: ServerConfig,
  { counts, family }: { readonly counts: EventCounts; readonly family: ProcessFamily },
): Promise<OpenedNode> {
  // A child process does not report settings without effect, because its parent does.
  if (family.tellParent === undefined) {
    announceIneffectiveSettings(config.configuration, FILE_SETTINGS, runtime.trace);
  }
  const node = await assembleNode(runtime, store, config, counts);
  const { kv, parts, sandbox, shown } = node;
  await parts.replicator.prepare();
  await ensureSystemDatabases(kv, parts.databases);
  const connections = openConnections(node);
  const endpoints = openEndpoints(node, connections.fetch);
  const isFrontend = config.nodeTypes.has("api_frontend");
  const api = isFrontend ? nodeApi(node, askingParts(node, connections.fetch)) : undefined;
  const stopping = new AbortController();
  // Allows any number of listeners, because every service listens to this signal.
  setMaxListeners(0, stopping.signal);
  const supervised: Promise<void>[] = [];
  const sockets: Listening[] = [];
  const run = (services: readonly Service[]): void => {
    const isReported = (error: unknown): boolean =>
      errorCode(error) === "KV_UNAVAILABLE" && (kv.isFull() || !kv.isAvailable());
    supervised.push(supervise(runtime, services, stopping.signal, isReported));
  };
  let stopped: Promise<void> | undefined;
  return {
    parts: node,
    api,
    store,
    endpoints,
    start: (more = []) =>
      run([
        ...commonServices(node),
        ...familyServices(node, family),
        ...jobServices(node, store.renewerOf(SUBSPACES.jobs), connections.fetch),
        ...more,
      ]),
    async listen(place = config) {
      assert(api !== undefined, "A node without an API must not listen");
      const listening = await listen(runtime, place, api);
      sockets.push(listening);
      shown.url = urlOf(place, listening.port);
      run(listening.services);
      return listening;
    },
    stop: () => {
      stopped ??= (async () => {
        stopping.abort(new Error("The node is stopping"));
        await Promise.all(sockets.map((listening) => listening.close()));
        await Promise.all(supervised);
        await connections.close();
        await sandbox.close();
        await kv.close();
      })();
      return stopped;
    },
  };
}

/**
 * Creates the HTTP client for requests to other servers. Only nodes that replicate may open
 * connections (RFC 016).
 */
function openConnections({ config, parts }: AssembledNode): {
  readonly fetch: Fetch;
  close(): Promise<void>;
} {
  if (!config.nodeTypes.has("replication")) {
    const refusal = new AssertionError(
      "A node without the replication role must not open connections to other servers",
    );
    return { fetch: () => Promise.reject(refusal), close: async () => {} };
  }
  return openUndiciFetch({
    idleMsMax: () => parts.config.connectionCloseMs,
    egressRules: egressRules(config.configuration),
    connectTo: connectTo(config.configuration),
  });
}
