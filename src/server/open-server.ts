/**
 * Opens a node: makes its parts, joins them, starts and stops them in order.
 *
 * Start: store, layout, databases with the replicator's hook, queue, API, services. Stop: no new
 * requests and no new jobs; running jobs write a last checkpoint and go back to the queue; then the
 * store closes.
 */
import { setMaxListeners } from "node:events";
import { AssertionError, errorCode, type Runtime, type Spans, type Trace } from "../base/index.ts";
import { createSystemRuntime, openUndiciFetch } from "../host/index.ts";
import type { Fetch } from "../http-client/index.ts";
import { type AssembledNode, assembleNode, ensureSystemDatabases } from "./assemble-node.ts";
import { EventCounts } from "./metrics/metrics.ts";
import {
  commonServices,
  familyServices,
  jobServices,
  type ProcessFamily,
} from "./node-services.ts";
import { tlsUrlOf, urlOf } from "./node-urls.ts";
import { type OpenedStore, openStore } from "./open-store.ts";
import { askingParts, serveApi } from "./serve-api.ts";
import { FILE_SETTINGS, type ServerConfig } from "./settings/config.ts";
import { egressRules } from "./settings/egress-settings.ts";
import { announceIneffectiveSettings } from "./settings/settings-advice.ts";
import { supervise } from "./supervise.ts";

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
  // A child process leaves it to its parent to report settings without effect.
  if (family.tellParent === undefined) {
    announceIneffectiveSettings(config.configuration, FILE_SETTINGS, runtime.trace);
  }
  const node = await assembleNode(runtime, store, config, counts);
  const { kv, parts, sandbox, shown } = node;
  await parts.replicator.prepare();
  await ensureSystemDatabases(kv, parts.databases);
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
  // Allows any number of listeners, because every service listens to this signal.
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
    const refusal = new AssertionError(
      "A node without the replication role must not open connections to other servers",
    );
    return { fetch: () => Promise.reject(refusal), close: async () => {} };
  }
  return openUndiciFetch({
    idleMsMax: () => parts.config.connectionCloseMs,
    egressRules: egressRules(config.configuration),
  });
}
