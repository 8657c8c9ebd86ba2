/** The parts that the API needs from its server. */
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

/** `[chttpd]`, `[couchdb]` and `[tandem]`, as far as resources depend on them. */
export interface ApiSettings extends AdmissionLimits, BodyBudgetLimits, UuidSettings {
  /** `decode_plus_to_space`: whether `+` in a path stands for a space. */
  readonly plusIsSpace: boolean;
  /** `x_forwarded_host`: the header in which a proxy in front names the host that it was asked for. */
  readonly forwardedHostHeader: string;
  /** `WWW-Authenticate`: what a 401 says of how to log in; undefined: what CouchDB says by default. */
  readonly challenge: string | undefined;
  /** `require_valid_user`: nobody comes in unknown. */
  readonly requireValidUser: boolean;
  /** `admin_only_all_dbs` */
  readonly adminOnlyAllDatabases: boolean;
  /** `users_db_public`: whether all who come into `_users` may list what is public there. */
  readonly usersListed: boolean;
  /** `users_db_security_editable` */
  readonly usersSecurityEditable: boolean;
  /** `changes_timeout`: how long a feed waits without a heartbeat, at most. */
  readonly changesTimeoutMs: number;
  /** `max_document_size`; never more than the store takes. */
  readonly documentBytesMax: number;
  /** `[attachments] compressible_types`: of attachments that are stored compressed; `*` stands for anything. */
  readonly compressibleTypes: readonly string[];
  /** `[attachments] compression_level`: 1 (fast) to 9 (small), 0 for not at all. */
  readonly compressionLevel: number;
  /** Whether answers are packed for whom asks for it. */
  readonly compressesResponses: boolean;
  /** `max_http_request_size`, of a request that tells its length; of all others as far as they are held whole. */
  readonly requestBytesMax: number;
  /** `max_db_number_for_dbs_info_req` */
  readonly infoCountMax: number;
  /** `maintenance_mode`: the node is up, and says that it is not. */
  readonly maintenanceMode: "false" | "true" | "nolb";
}

/** What `_compact` starts, of the database of a name. */
export interface Compaction {
  /** Has old bodies cleared soon, whatever their age. */
  start(name: string): void;
  /** Whether this node has not done so yet. */
  isRunning(name: string): boolean;
}

/** What resources of databases and documents need. */
export interface DatabaseParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly databases: DatabaseRegistry;
  readonly attachments: AttachmentStore;
  readonly indexes: Indexes;
  /** Waits for indexes that are being built. */
  readonly indexBuilds: Pick<IndexBuilds, "whenReady">;
  readonly parseMultipart: MultipartParser;
  /** Names documents that come without an id. */
  readonly uuids: UuidSource;
  /** Filters and validations of design documents. */
  readonly functions: DesignFunctions;
  /** Hashes the passwords in documents of `_users`, before they are written. */
  readonly hashPasswords: (edits: readonly DocumentEdit[]) => Promise<readonly DocumentEdit[]>;
  /** Whether a write asks for replication jobs that wait. Throws a ProtocolError for a write that may not. */
  readonly pausingOf: (call: Call) => Pick<WriteContext, "pausing">;
  readonly compaction: Compaction;
  /** Read at each use. */
  readonly settings: ApiSettings;
}

/** What the server says of itself. */
export interface ServerInfoParts {
  readonly runtime: Runtime;
  readonly server: {
    /** CouchDB's version, whose API this is. */
    readonly version: string;
    readonly vendor: { readonly name: string; readonly version: string };
    readonly uuid: string;
    /** `name@host`. */
    readonly nodeName: string;
  };
  /** For who asks for ids. */
  readonly uuids: UuidSource;
  readonly isUp: () => boolean;
  /** Whether the store refuses writes for want of room. */
  readonly isFull: () => boolean;
  /** Read at each use. */
  readonly settings: ApiSettings;
}

/** Runs whose jobs requests removed. */
export interface HaltedRunsOf {
  /** Grows when a request of this process removes the job of a run. */
  readonly count: number;
  /** Settles when the runs have ended. */
  settled(signal: AbortSignal): Promise<void>;
}

/** What the API as a whole needs beside its resources. */
export interface ApiParts extends DatabaseParts, ServerInfoParts {
  /** Throws a ProtocolError 401 for wrong credentials. */
  readonly authenticate: (request: ApiRequest) => Promise<User>;
  readonly cors: CorsOf;
  readonly haltedRuns: HaltedRunsOf;
  /** The files below `/_utils/`; undefined: none. */
  readonly utilities?: StaticFiles | undefined;
  /** The files below `/_dashboard/`; undefined: none. */
  readonly dashboard?: StaticFiles | undefined;
  /** Further resources; they count before those with the same path and method. */
  readonly routes: readonly Route[];
}
