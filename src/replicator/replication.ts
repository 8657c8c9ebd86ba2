/** What is to be copied, and how: a parsed `_replicator` document or `_replicate` body. Plain JSON, so that a job can hold it. */
import type { BasicCredentials, IamCredentials, TlsSettings } from "../http-client/index.ts";
import type { Selection } from "./endpoint.ts";

/** A database on a server. */
export interface HttpAddress {
  readonly kind: "http";
  /** Without credentials; ends in `/` unless it has a query. */
  readonly url: string;
  readonly basic?: BasicCredentials;
  /** The user's name as the URL has it, if that has escapes: CouchDB's ids do not resolve them. */
  readonly writtenUsername?: string;
  readonly iam?: IamCredentials;
  /** Names as given, without a Basic authorization. */
  readonly headers: Readonly<Record<string, string>>;
  /** With the credentials that the proxy wants. */
  readonly proxyUrl?: string;
  /** Over the node's own settings. */
  readonly tls?: Partial<TlsSettings>;
}

/** A database in our own store. */
export interface LocalAddress {
  readonly kind: "local";
  readonly database: string;
}

export type EndpointAddress = HttpAddress | LocalAddress;

/** Of a job that does not say otherwise. */
export const WEIGHT_DEFAULT = 100;

export interface Replication {
  readonly source: EndpointAddress;
  readonly target: EndpointAddress;
  readonly continuous: boolean;
  readonly createTarget: boolean;
  readonly createTargetParameters: Readonly<Record<string, string>>;
  readonly selection: Selection;
  readonly winningRevisionsOnly: boolean;
  /** Where a first run begins; absent: at the start. */
  readonly sinceSequence?: unknown;
  /** How long the job keeps its slot beside others of its group, 1 to 1000; absent: the default. */
  readonly weight?: number;
  readonly options: ReplicationOptions;
}

/** Defaults are CouchDB's (`[replicator]`). */
export interface ReplicationOptions {
  readonly useCheckpoints: boolean;
  readonly checkpointIntervalMs: number;
  /** Concurrent workers of one job. */
  readonly workerProcesses: number;
  /** Changes that a worker takes at once. */
  readonly workerBatchSize: number;
  /** Connections to one endpoint. */
  readonly httpConnections: number;
  /** Silence that ends a request. */
  readonly connectionTimeoutMs: number;
  readonly retriesPerRequest: number;
  readonly useBulkGet: boolean;
  readonly failurePolicy: FailurePolicy;
  /** How often revisions that were left behind are tried again by themselves; 0: only on demand. */
  readonly failureRetrySec: number;
}

export const FAILURE_POLICIES = ["skip", "hold", "crash"] as const;

/**
 * What becomes of a revision that does not arrive. It is on the list of failures in any case.
 *
 *   skip    the job goes on, and its checkpoint passes the revision
 *   hold    the job tries it again and again, and its checkpoint waits for it
 *   crash   the run ends, and so does the next one, until the revision arrives
 */
export type FailurePolicy = (typeof FAILURE_POLICIES)[number];

export const REPLICATION_OPTIONS_DEFAULT: ReplicationOptions = {
  useCheckpoints: true,
  checkpointIntervalMs: 30_000,
  workerProcesses: 4,
  workerBatchSize: 500,
  httpConnections: 20,
  connectionTimeoutMs: 30_000,
  retriesPerRequest: 5,
  useBulkGet: true,
  failurePolicy: "skip",
  failureRetrySec: 3600,
};
