/** A node in the caller's process, which needs no socket. */
import type { Trace } from "../../base/index.ts";
import { type WebFetch, WebRequests } from "../../host/index.ts";
import {
  ALL_JOB_TYPES,
  checkBindAddress,
  openNode as openServerNode,
  readConfig,
  SUBSPACES,
} from "../../server/index.ts";
import { type JobQueue, StoredJobQueue } from "../jobs/queue.ts";
import type { JobHandler } from "../jobs/type-runner.ts";
import { knownStore, type Store, type StoreLocation } from "../kv/open-store.ts";
import { databasesOf, type NodeDatabases } from "./node-database.ts";

export interface OpenNodeOptions {
  /** Location of the store. Default: memory, so that all data is lost when the node closes. */
  readonly store?: StoreLocation;
  /** Settings by section and key, as in the configuration file. */
  readonly config?: Readonly<Record<string, Readonly<Record<string, string | number | boolean>>>>;
  /** Roles of the node. Default: both. */
  readonly roles?: readonly ("api_frontend" | "replication")[];
  /** Additional job types, defined by the caller. This node runs their jobs besides its own. */
  readonly types?: readonly JobHandler[];
  /** Receives the events of the node's log. Default: they are dropped. */
  readonly log?: (name: string, fields: Readonly<Record<string, unknown>>) => void;
}

export interface ListenOptions {
  /** Default: `[chttpd] port`; 0 picks a free port. */
  readonly port?: number;
  /** Default: `[chttpd] bind_address`. */
  readonly host?: string;
}

export interface TandemNode {
  /**
   * Answers a request to the API without a socket, like the global `fetch`. URLs can be relative.
   * Without administrators in `config`, every request has administrator rights.
   */
  readonly fetch: WebFetch;
  readonly databases: NodeDatabases;
  /** The queue of the node, for job types other than its own. */
  readonly jobs: JobQueue;
  /** The store of the node. Keys below the tuple `"tandem"` belong to the node. */
  readonly store: Store;
  /** Resolves with the reason when the store can no longer serve this process. */
  readonly failed: Promise<Error>;
  /** Opens a port for the API. Returns its URL. */
  listen(options?: ListenOptions): Promise<string>;
  /**
   * Stops gracefully: running replications write a last checkpoint, and jobs return to the queue.
   * Idempotent.
   */
  close(): Promise<void>;
}

/** Opens a node. Rejects if a setting is invalid or the store is unusable. */
export async function openNode({
  store = "memory",
  config = {},
  roles,
  types = [],
  log,
}: OpenNodeOptions = {}): Promise<TandemNode> {
  const settings = readConfig(
    { ...placeOptions(store), sections: sectionsOf(config, store), ...roleOptions(roles) },
    environment(),
  );
  const trace: Trace = { event: (name, fields) => log?.(name, fields) };
  const node = await openServerNode(settings, trace);
  const { runtime, kv, parts } = node.parts;
  const jobs = new StoredJobQueue({
    runtime,
    ...node.store,
    jobs: parts.jobs,
    renewer: node.store.renewerOf(SUBSPACES.jobs),
    isReserved: (type) => ALL_JOB_TYPES.includes(type),
  });
  const requests = node.api && new WebRequests(node.api);
  const name = settings.nodeName;
  node.start(
    types.length === 0
      ? []
      : [{ name: "types", run: (signal) => jobs.run(types, { signal, name }) }],
  );
  return {
    fetch:
      requests?.fetch ?? (() => Promise.reject(new TypeError("the node does not serve the API"))),
    databases: databasesOf(node),
    jobs,
    store: knownStore({ runtime, ...node.store }),
    failed: kv.failed,
    async listen({ port = settings.port, host: bindAddress = settings.bindAddress } = {}) {
      const place = { ...settings, port, bindAddress };
      checkBindAddress(place);
      const listening = await node.listen(place);
      const host = bindAddress.includes(":") ? `[${bindAddress}]` : bindAddress;
      return `http://${host}:${listening.port}`;
    },
    close() {
      requests?.stop();
      return node.stop();
    },
  };
}

/**
 * Returns the environment of this process without the variables that configure the command line.
 * Variables with sealing keys are included.
 */
function environment(): Readonly<Record<string, string | undefined>> {
  const names = Object.keys(process.env).filter(
    (name) => !/^(TANDEM_(?!SECRETS_)|COUCHDB_)/.test(name),
  );
  return Object.fromEntries(names.map((name) => [name, process.env[name]]));
}

function placeOptions(store: StoreLocation) {
  if (typeof store === "string") return { store };
  const { kind } = store;
  if (kind === "lmdb") return { store: kind, dataDirectory: store.directory };
  const { clusterFile } = kind === "foundationdb" ? store : {};
  return { store: kind, ...(clusterFile === undefined ? {} : { clusterFile }) };
}

function roleOptions(roles: OpenNodeOptions["roles"]) {
  return roles === undefined ? {} : { nodeType: roles.join(",") };
}

function sectionsOf(
  config: NonNullable<OpenNodeOptions["config"]>,
  store: StoreLocation,
): ReadonlyMap<string, ReadonlyMap<string, string>> {
  const sections = new Map(
    Object.entries(config).map(([name, section]) => {
      const pairs = Object.entries(section).map(([key, value]) => [key, String(value)] as const);
      return [name, new Map(pairs)];
    }),
  );
  if (typeof store === "string" || store.kind !== "foundationdb") return sections;
  const { prefix, apiVersion, headerVersion } = store;
  const cluster = { prefix, api_version: apiVersion, header_version: headerVersion };
  const given = Object.entries(cluster).filter(([, value]) => value !== undefined);
  const pairs = given.map(([key, value]) => [key, String(value)] as const);
  return sections.set("foundationdb", new Map([...(sections.get("foundationdb") ?? []), ...pairs]));
}
