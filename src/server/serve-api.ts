/** The API of a node. */
import { fileURLToPath } from "node:url";
import { type Api, createApi, pausingOf, UuidSource } from "../api/index.ts";
import { parseMultipart, StaticFolder } from "../host/index.ts";
import type { Fetch } from "../http-client/index.ts";
import {
  AskedQuestions,
  type Endpoints,
  isReplicatorDatabase,
  ReplicationChecks,
  RulePlans,
} from "../replicator/index.ts";
import type { AssembledNode } from "./assemble-node.ts";
import { Metrics } from "./metrics/metrics.ts";
import { joinEndpoints } from "./node-parts.ts";
import { routes } from "./routes.ts";
import { apiSettings } from "./settings/authentication-settings.ts";
import { corsSettings } from "./settings/cors-settings.ts";
import { MaskedConfiguration } from "./settings/node-configuration.ts";
import { tagSettings } from "./settings/tag-settings.ts";
import { hashPasswords } from "./users/user-passwords.ts";
import { VERSION } from "./version.ts";

/** The built dashboard. This module runs from `src/server`, `dist/server` or `dist/program`. */
const DASHBOARD_DIRECTORY = fileURLToPath(
  new URL(
    import.meta.url.endsWith(".ts") ? "../../dist/dashboard" : "../dashboard",
    import.meta.url,
  ),
);

/** CouchDB version reported to clients. */
const COUCHDB_VERSION = "3.5.0";

/** Creates the API, which needs no socket. */
export function nodeApi(node: AssembledNode, asking: ReturnType<typeof askingParts>): Api {
  const { runtime, kv, config, parts, functions, accounts, reclaimer } = node;
  const { configuration, utilitiesDirectory: utilities } = config;
  const settings = apiSettings(configuration);
  return createApi({
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
    haltedRuns: {
      hasJobs: isReplicatorDatabase,
      settledAfter: (...asked) => parts.halted.settledAfter(...asked),
    },
    utilities: utilities === undefined ? undefined : new StaticFolder(utilities),
    dashboard: new StaticFolder(DASHBOARD_DIRECTORY),
    pausingOf,
    compaction: reclaimer,
    hashPasswords: (edits) => hashPasswords(edits, accounts.passwords),
    routes: ownRoutes(node, asking),
  });
}

/** Returns all routes except those of databases and documents. */
function ownRoutes(node: AssembledNode, asking: ReturnType<typeof askingParts>) {
  const { runtime, kv, config, counts, parts, accounts, shown, rotation, formats } = node;
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
    metrics: new Metrics({
      ...{ clock: runtime.clock, kv, databases, jobs, replicator, counts },
      tags: tagSettings(configuration),
    }),
    nodeName,
    secrets: rotation,
    formats,
    shownUrl: () => shown.url,
  });
}

/**
 * Creates the parts that check endpoints when replications and rules are created. A node that does
 * not run jobs asks another node to perform these checks.
 */
export function askingParts(node: AssembledNode, fetch: Fetch) {
  const { parts } = node;
  const { rules } = parts.replicator;
  const endpoints = openEndpoints(node, fetch);
  const rulePlans = new RulePlans({ ...parts, rules, endpoints });
  if (!node.config.nodeTypes.has("replication")) {
    const asked = new AskedQuestions({ ...parts, rules, plans: rulePlans });
    return { checks: asked, rulePlans: asked };
  }
  return { checks: new ReplicationChecks({ ...parts, endpoints }), rulePlans };
}

/**
 * Creates the endpoints for requests outside of jobs. Endpoints can be opened on behalf of any
 * owner.
 */
export function openEndpoints(node: AssembledNode, fetch: Fetch): Endpoints {
  return joinEndpoints(node.parts, reachOf(node, fetch));
}

/** Returns the node's access to databases, local and remote. */
export function reachOf({ config, functions, accounts, shown }: AssembledNode, fetch: Fetch) {
  return {
    functions,
    resolveUser: (userName: string | null) => accounts.users.resolve(userName),
    documentLimits: apiSettings(config.configuration),
    // The URL is final only once the node listens.
    get serverUrl() {
      return shown.url;
    },
    fetch,
    parseMultipart,
    userAgent: `Tandem/${VERSION}`,
    lookUpSecret: config.secrets.lookUp,
  };
}
