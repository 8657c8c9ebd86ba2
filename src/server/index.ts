/**
 * The composition root: reads the configuration, builds the parts of a node, and starts and stops
 * them.
 *
 * One folder per subject; a folder imports only those above it:
 *
 *   secrets   the keys that seal secrets in the store, and their rotation
 *   settings  the configuration, and the settings that each layer declares
 *   users     users, passwords, sessions and tokens
 *   metrics   counters and gauges
 *
 * `open-server.ts` opens a node: `assemble-node.ts` joins its parts (`open-store.ts`,
 * `node-parts.ts`), `node-services.ts` lists its services, `serve-api.ts` serves its `routes.ts`.
 * `supervise.ts` runs its services and restarts those that fail. `replication-process.ts` is the
 * service of a replication process. Reading order: settings/config.ts, open-server.ts,
 * node-parts.ts, routes.ts.
 */

export { PROGRAM, refusalOf } from "./formats.ts";
export { SERVER_KEY_SHAPES, SUBSPACES } from "./layout.ts";
export { ALL_JOB_TYPES } from "./node-parts.ts";
export type { OpenedNode, RunningServer } from "./open-server.ts";
export { openNode, openServer } from "./open-server.ts";
export type { OpenedStore, StorePlace } from "./open-store.ts";
export { openCluster, openEngine, openStore, placeOf, readUpgrade } from "./open-store.ts";
export { secretLookup } from "./secrets/secret-lookup.ts";
export type { ServeOptions } from "./settings/config.ts";
export { checkBindAddress, readConfig, readStorePlace } from "./settings/config.ts";
export { ConfigError } from "./settings/settings.ts";
export { VERSION } from "./version.ts";
export { copyWholeStore, readRecords, StoreRowsCheck } from "./whole-store.ts";
