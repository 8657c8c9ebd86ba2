/** `couch-tandem`: replications, comparisons and nodes in the caller's process. */
export type { JobQueue } from "../jobs/queue.ts";
export type { JobHandler } from "../jobs/type-runner.ts";
export type { StoreLocation } from "../kv/open-store.ts";
export type { NodeDatabase, NodeDatabases } from "../node/node-database.ts";
export type { ListenOptions, OpenNodeOptions, TandemNode } from "../node/open-node.ts";
export { openNode } from "../node/open-node.ts";
export type {
  PouchEvents,
  PouchProgress,
  PouchReplicateOptions,
  PouchReplication,
  PouchResult,
} from "../pouchdb/pouch-replicate.ts";
export { pouchReplicate } from "../pouchdb/pouch-replicate.ts";
export type {
  DocumentOptions,
  FailedRevision,
  RemoteDatabase,
  ReplicateOptions,
  Replication,
  ReplicationEndpoint,
  ReplicationProgress,
  ReplicationResult,
} from "../replication/options.ts";
export { replicate } from "../replication/replicate.ts";
export { ReplicationError } from "../replication/replication-error.ts";
export type {
  Difference,
  Verification,
  VerificationProgress,
  VerificationResult,
  VerifyOptions,
} from "../replication/verify.ts";
export { verify } from "../replication/verify.ts";
