/** Dependencies of the API on its server. */
import type { Runtime } from "../base/index.ts";
import type {
  AttachmentStore,
  DatabaseRegistry,
  DocumentEdit,
  WriteContext,
} from "../databases/index.ts";
import type { DesignFunctions } from "../documents/index.ts";
import type { IndexBuilds, Indexes } from "../indexes/index.ts";
import type { KeyValueStore } from "../kv/index.ts";
import type { MultipartParser } from "../protocol/index.ts";
import type { AdmissionLimits } from "./http/admission.ts";
import type { BodyBudgetLimits } from "./http/body-budget.ts";
import type { Call } from "./http/call.ts";
import type { CorsOf } from "./http/cors.ts";
import type { ApiRequest, User } from "./http/exchange.ts";
import type { Route } from "./http/router.ts";
import type { StaticFiles } from "./http/static-files.ts";
import type { UuidSettings, UuidSource } from "./uuids.ts";

/** Settings of `[chttpd]`, `[couchdb]` and `[tandem]` that resources depend on. */
export interface ApiSettings extends AdmissionLimits, BodyBudgetLimits, UuidSettings {
  /** `decode_plus_to_space`: whether `+` in a path is decoded as a space. */
  readonly plusIsSpace: boolean;
  /** `x_forwarded_host`: header in which a reverse proxy passes the original host. */
  readonly forwardedHostHeader: string;
  /** `WWW-Authenticate`: the challenge sent with a 401. Default: CouchDB's. */
  readonly challenge: string | undefined;
  /** `require_valid_user`: whether anonymous requests are rejected. */
  readonly requireValidUser: boolean;
  /** `admin_only_all_dbs`: whether only administrators may list databases. */
  readonly adminOnlyAllDatabases: boolean;
  /** `users_db_public`: whether everyone with access to `_users` may list its public fields. */
  readonly usersListed: boolean;
  /** `users_db_security_editable`: whether the security object of `_users` can be changed. */
  readonly usersSecurityEditable: boolean;
  /** `changes_timeout`: maximum wait of a feed without heartbeats. */
  readonly changesTimeoutMs: number;
  /** `max_document_size`, bounded by the limit of the store. */
  readonly documentBytesMax: number;
  /**
   * `[attachments] compressible_types`: content types that are stored compressed; `*` is a
   * wildcard.
   */
  readonly compressibleTypes: readonly string[];
  /** `[attachments] compression_level`: from 1 (fast) to 9 (small); 0 for no compression. */
  readonly compressionLevel: number;
  /** Whether responses are compressed for clients that accept it. */
  readonly compressesResponses: boolean;
  /**
   * `max_http_request_size`: limit for requests with a Content-Length, and for the buffered part of
   * all others.
   */
  readonly requestBytesMax: number;
  /** `max_db_number_for_dbs_info_req`: maximum number of databases per `_dbs_info` request. */
  readonly infoCountMax: number;
  /** `maintenance_mode`: whether `/_up` reports the node as unavailable. */
  readonly maintenanceMode: "false" | "true" | "nolb";
}

/** Starts and reports compactions of databases (`_compact`). Databases are given by name. */
export interface Compaction {
  /** Schedules the removal of bodies of earlier revisions, regardless of their age. */
  start(name: string): void;
  /** Whether a compaction is still running on this node. */
  isRunning(name: string): boolean;
}

/** Dependencies of the resources for databases and documents. */
export interface DatabaseParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly databases: DatabaseRegistry;
  readonly attachments: AttachmentStore;
  readonly indexes: Indexes;
  /** Used to wait until indexes have been built. */
  readonly indexBuilds: Pick<IndexBuilds, "whenReady">;
  readonly parseMultipart: MultipartParser;
  /** Generates ids for documents without one. */
  readonly uuids: UuidSource;
  /** Executes filter and validation functions of design documents. */
  readonly functions: DesignFunctions;
  /** Hashes the passwords in documents of `_users` before they are written. */
  readonly hashPasswords: (edits: readonly DocumentEdit[]) => Promise<readonly DocumentEdit[]>;
  /**
   * Returns whether the jobs of written replication documents start paused, and why. Throws a
   * ProtocolError if the user is not allowed to request this.
   */
  readonly pausingOf: (call: Call) => Pick<WriteContext, "pausing">;
  readonly compaction: Compaction;
  /** Settings that can change at runtime, so they are read on each use. */
  readonly settings: ApiSettings;
}

/** Description of the server, reported at `/`. */
export interface ServerInfoParts {
  readonly runtime: Runtime;
  readonly server: {
    /** Version of CouchDB whose API is implemented. */
    readonly version: string;
    readonly vendor: { readonly name: string; readonly version: string };
    readonly uuid: string;
    /** Name of the node, in the form `name@host`. */
    readonly nodeName: string;
  };
  /** Generator of the ids that `_uuids` returns. */
  readonly uuids: UuidSource;
  readonly isUp: () => boolean;
  /** Whether the store refuses writes because the disk is full. */
  readonly isFull: () => boolean;
  /** Settings that can change at runtime, so they are read on each use. */
  readonly settings: ApiSettings;
}

/** Runs whose jobs were removed by requests. */
export interface HaltedRunsOf {
  /** Whether documents of the database with this name have jobs. */
  hasJobs(databaseName: string): boolean;
  /** Calls `call`, and resolves when the runs of the jobs removed meanwhile have ended. */
  settledAfter<T>(call: () => Promise<T>, signal: AbortSignal): Promise<T>;
}

/** Dependencies of the API as a whole, besides those of its resources. */
export interface ApiParts extends DatabaseParts, ServerInfoParts {
  /** Returns the user of a request. Throws a ProtocolError 401 for wrong credentials. */
  readonly authenticate: (request: ApiRequest) => Promise<User>;
  readonly cors: CorsOf;
  readonly haltedRuns: HaltedRunsOf;
  /** Files below `/_utils/`, if any. */
  readonly utilities?: StaticFiles | undefined;
  /** Files below `/_dashboard/`, if any. */
  readonly dashboard?: StaticFiles | undefined;
  /** Additional resources. They override built-in ones with the same path and method. */
  readonly routes: readonly Route[];
}
