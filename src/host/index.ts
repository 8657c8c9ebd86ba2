/**
 * Adapters for the machine: stores, sockets, threads, clock and randomness, as implementations of
 * interfaces declared by other layers.
 *
 * Each folder has one subject, and imports only folders listed above it:
 *
 *   system        clock, randomness, digests, compression, log, child processes
 *   backup        backup files and store copies, for any engine
 *   sandbox       QuickJS in threads, for functions of design documents
 *   lmdb          the embedded store: engine, committer thread, commit log
 *   foundationdb  the store on a FoundationDB cluster
 *   leases        threads that renew leases
 *   http          server sockets, client connections, multipart
 *
 * Reading order: system/runtime.ts, lmdb/engine.ts, lmdb/committer.ts,
 * leases/lmdb-lease-renewer.ts.
 */
export type { CopyStoreParts, CopySummary, CopyTarget } from "./backup/copy-store.ts";
export {
  ClusterCopyTarget,
  COPY_KEY_SHAPES,
  COPY_MARK_KEY,
  copyStore,
  isCopyUnfinished,
} from "./backup/copy-store.ts";
export type { BackupSummary } from "./backup/file.ts";
export { readBackup, writeBackup } from "./backup/file.ts";
export { clusterFileOf, openFoundationDbEngine } from "./foundationdb/engine.ts";
export { type ConnectTo, parseConnectTo } from "./http/connect-to.ts";
export { Connections } from "./http/connections.ts";
export type { Resolve } from "./http/egress-guard.ts";
export type { EgressRule } from "./http/egress-rules.ts";
export { EGRESS_RULE_FORMS, EgressRules, parseEgressRule } from "./http/egress-rules.ts";
export { parseMultipart } from "./http/multipart-parser.ts";
export type {
  NodeServer,
  NodeServerOptions,
  ServerCertificates,
  TlsNodeServer,
} from "./http/node-server.ts";
export { openNodeServer, openTlsServer } from "./http/node-server.ts";
export { StaticFolder } from "./http/static-folder.ts";
export type { UndiciFetch } from "./http/undici-fetch.ts";
export { openUndiciFetch } from "./http/undici-fetch.ts";
export type { WebFetch } from "./http/web-fetch.ts";
export { WebRequests } from "./http/web-fetch.ts";
export { LmdbLeaseRenewer } from "./leases/lmdb-lease-renewer.ts";
export { LmdbCopyTarget } from "./lmdb/copy-target.ts";
export { openLmdbEngine } from "./lmdb/engine.ts";
export { checkLmdbStore, exportLmdbStore } from "./lmdb/export.ts";
export { LmdbImport } from "./lmdb/import.ts";
export { LMDB_KEY_SHAPES } from "./lmdb/layout.ts";
export { SandboxPool } from "./sandbox/pool.ts";
export type { ChildProgram } from "./system/child-program.ts";
export { onParentGone, parentListener, startChildProgram } from "./system/child-program.ts";
export { systemClock } from "./system/clock.ts";
export { systemCompression } from "./system/compression.ts";
export { boundGarbage } from "./system/garbage-collection.ts";
export { createLogWriter, logFormat } from "./system/log-writer.ts";
export { openSpans } from "./system/open-telemetry.ts";
export { processMeter } from "./system/process-meter.ts";
export { createSystemRuntime } from "./system/runtime.ts";
export { notifierOf } from "./system/service-manager.ts";
