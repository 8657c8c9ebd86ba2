/** The machine: engines, sockets, clock and chance, as implementations of the ports that the layers declare. */
export type { FoundationDbOptions } from "./foundationdb-engine.ts";
export { openFoundationDbEngine } from "./foundationdb-engine.ts";
export type { LmdbOptions } from "./lmdb-engine.ts";
export { LmdbEngine, openLmdbEngine } from "./lmdb-engine.ts";
export { LMDB_KEY_SHAPES } from "./lmdb-layout.ts";
export { LmdbLeaseRenewer } from "./lmdb-lease-renewer.ts";
export type { LogLevel } from "./log-writer.ts";
export { createLogWriter } from "./log-writer.ts";
export { parseMultipart } from "./multipart-parser.ts";
export type { NodeServer, NodeServerOptions } from "./node-server.ts";
export { openNodeServer } from "./node-server.ts";
export { systemClock } from "./system-clock.ts";
export { systemCompression } from "./system-compression.ts";
export { systemDigests } from "./system-digests.ts";
export { SystemRandom } from "./system-random.ts";
export { createSystemRuntime } from "./system-runtime.ts";
export type { UndiciFetch } from "./undici-fetch.ts";
export { openUndiciFetch } from "./undici-fetch.ts";
