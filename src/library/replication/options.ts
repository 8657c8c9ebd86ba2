/** Options and results of replications that run in the caller's process. */
import type { OptionValue, REPLICATION_OPTIONS } from "../../contract/index.ts";
import type { NodeDatabase } from "../node/node-database.ts";

/** One authentication scheme, as `auth` in a replication document. */
export interface EndpointAuth {
  readonly basic?: { readonly username: string; readonly password: string };
  readonly iam?: { readonly api_key: string; readonly token_url?: string };
  readonly oauth2?: {
    readonly token_url: string;
    readonly client_id: string;
    readonly client_secret?: string;
    /** A reference to a signed assertion: `file:/path` or `env:NAME`. */
    readonly client_assertion?: string;
    readonly auth_method?: "client_secret_basic" | "client_secret_post";
    readonly scope?: string;
    readonly audience?: string;
    readonly resource?: string;
  };
  readonly bearer?: { readonly token: string };
}

/** A database on a server, as in a replication document. */
export interface RemoteDatabase {
  readonly url: string | URL;
  readonly auth?: EndpointAuth;
  readonly headers?: Readonly<Record<string, string>>;
  readonly verify_ssl_certificates?: boolean;
  readonly ssl_certificate_max_depth?: number;
  readonly ssl_trusted_certificates_file?: string;
  readonly cert_file?: string;
  readonly key_file?: string;
  readonly password?: string;
}

/**
 * A side of a replication: the URL of a database, a database on a server with the settings for the
 * connection, or a database of an open node.
 */
export type ReplicationEndpoint = string | URL | RemoteDatabase | NodeDatabase;

/** Options with defaults, named as in replication documents. */
export type TuningOptions = {
  readonly [Key in keyof typeof REPLICATION_OPTIONS as (typeof REPLICATION_OPTIONS)[Key]["name"]]?: OptionValue<
    (typeof REPLICATION_OPTIONS)[Key]
  >;
};

/** Members of a replication document other than its sides and its schedule. */
export interface DocumentOptions extends TuningOptions {
  readonly continuous?: boolean;
  readonly create_target?: boolean;
  readonly create_target_params?: Readonly<Record<string, string | number | boolean>>;
  /** At most one of `doc_ids`, `selector` and `filter` can be given. */
  readonly doc_ids?: readonly string[];
  readonly selector?: Readonly<Record<string, unknown>>;
  /** `designDocument/filterName`, or a filter whose name begins with an underscore. */
  readonly filter?: string;
  readonly query_params?: Readonly<Record<string, unknown>>;
  readonly since_seq?: unknown;
  readonly winning_revs_only?: boolean;
  readonly deleted?: "copy" | "skip";
  readonly attachments?: { readonly max_bytes: number };
  readonly documents?: { readonly max_bytes: number };
  readonly proxy?: string;
  readonly source_proxy?: string;
  readonly target_proxy?: string;
}

export interface ReplicateOptions extends DocumentOptions {
  /**
   * Stops the replication, which then writes a last checkpoint and rejects with the signal's
   * reason.
   */
  readonly signal?: AbortSignal;
  /**
   * Whether to run again after an error, with growing pauses. A rejected login, missing rights and
   * invalid options still end the replication. A function receives the number of consecutive
   * failures and returns the pause in milliseconds. Default: false.
   */
  readonly retry?: boolean | ((failureCount: number) => number);
}

/** A revision that was not copied. */
export interface FailedRevision {
  readonly id: string;
  readonly rev: string;
  /** Operation that failed: reading from the source, or writing to the target. */
  readonly phase: "read" | "write";
  readonly status: number | null;
  readonly error: string;
  readonly reason: string;
}

/** Counts of this replication, named as in CouchDB. */
export interface ReplicationCounts {
  readonly revisions_checked: number;
  readonly missing_revisions_found: number;
  readonly docs_read: number;
  readonly docs_written: number;
  readonly doc_write_failures: number;
}

/** Progress, named as in `_active_tasks`. Sequences are the source's. */
export interface ReplicationProgress extends ReplicationCounts {
  /** Bytes transferred over HTTP. */
  readonly bytes: number;
  /** Changes not copied yet, as last reported by the source; null if unknown. */
  readonly changes_pending: number | null;
  readonly through_seq: unknown;
  readonly checkpointed_source_seq: unknown;
  /** Whether the target has all changes of the source, as far as known. */
  readonly caught_up: boolean;
  /** The error after which the replication waits to run again; null while the replication runs. */
  readonly failure: { readonly error: string; readonly reason: string } | null;
}

/** An entry of the replication log. */
export interface HistoryEntry {
  readonly session_id: string;
  readonly start_time: string;
  readonly end_time: string;
  readonly start_last_seq: unknown;
  readonly end_last_seq: unknown;
  readonly recorded_seq: unknown;
  readonly missing_checked: number;
  readonly missing_found: number;
  readonly docs_read: number;
  readonly docs_written: number;
  readonly doc_write_failures: number;
}

/** The response of `POST /_replicate`. The counts are those of this replication alone. */
export interface ReplicationResult extends ReplicationCounts {
  /** Whether every selected revision is on the target. False if `failures` is not empty. */
  readonly ok: boolean;
  /** Present if there was nothing to copy. */
  readonly no_changes?: boolean;
  readonly session_id?: string;
  readonly source_last_seq?: unknown;
  readonly replication_id_version?: number;
  readonly history?: readonly HistoryEntry[];
  /** Times in the format of RFC 3339. */
  readonly start_time: string;
  readonly end_time: string;
  /** Whether `stop` ended the replication. */
  readonly stopped: boolean;
  /** The first revisions that were not copied. `doc_write_failures` is their number. */
  readonly failures: readonly FailedRevision[];
}

/**
 * A replication in progress: a promise of its result, and an async iterable of its progress. The
 * promise rejects with a ReplicationError, or with the reason of an aborted signal. Leaving a loop
 * over the progress does not stop the replication.
 */
export interface Replication
  extends Promise<ReplicationResult>,
    AsyncIterable<ReplicationProgress> {
  /** Stops after a last checkpoint, and resolves with the result. */
  stop(): Promise<ReplicationResult>;
}
