/**
 * Properties that each route declares next to its handler: permitted callers and admission control.
 */

/**
 * Permitted callers of a route. Server administrators may call all routes. `database` and the names
 * after it stand for CouchDB's rules for kinds of resources (`chttpd_auth_request`), which depend
 * on the method and on the database.
 */
export type Access =
  | "anybody"
  /** An authenticated user who is not a read-only operator. */
  | "replicating-user"
  | "metrics-reader"
  /** Operators may read; other methods require a server administrator. */
  | "operations-reader"
  | "server-admin"
  | "database-member"
  | "database-admin"
  /** Browser pages, open to everyone. */
  | "page"
  /** List of databases, open to everyone unless `[chttpd] admin_only_all_dbs` is set. */
  | "database-list"
  /** Configuration of the node. */
  | "configuration"
  /** A database as a whole. */
  | "database"
  /** Security object and limits of a database. */
  | "database-setting"
  | "all-documents"
  | "changes"
  | "local-documents"
  /** A document of any kind, or an attachment. */
  | "document";

/**
 * How a request counts towards the concurrency limit (`[tandem] max_requests`). `free`: not at all,
 * so that operators can use the route on an overloaded node. `free-if-live`: not at all if it is a
 * live feed.
 */
export type AdmissionRule = "counted" | "free" | "free-if-live";

export interface RouteFacts {
  readonly access: Access;
  readonly admission: AdmissionRule;
  /** Whether `_tandem/_batch` accepts the route; meant for short requests of replicators. */
  readonly isBatched: boolean;
  /** Whether a POST with the content type of an HTML form is accepted. */
  readonly acceptsForms?: boolean;
}

const COUNTED = { admission: "counted", isBatched: false } as const;
const FREE = { admission: "free", isBatched: false } as const;

export const PUBLIC: RouteFacts = { ...COUNTED, access: "anybody" };
export const PAGE: RouteFacts = { ...COUNTED, access: "page" };
export const ADMIN: RouteFacts = { ...COUNTED, access: "server-admin" };
export const OPERATIONS: RouteFacts = { ...FREE, access: "operations-reader" };
export const METRICS: RouteFacts = { ...FREE, access: "metrics-reader" };
export const CONFIGURATION: RouteFacts = { ...FREE, access: "configuration" };
export const REPLICATING: RouteFacts = { ...FREE, access: "replicating-user" };
export const DATABASE_LIST: RouteFacts = { ...COUNTED, access: "database-list" };
export const DATABASE: RouteFacts = { ...COUNTED, access: "database" };
export const DATABASE_SETTING: RouteFacts = { ...COUNTED, access: "database-setting" };
export const DATABASE_ADMIN: RouteFacts = { ...COUNTED, access: "database-admin" };
export const MEMBER: RouteFacts = { ...COUNTED, access: "database-member" };
/** Requires the same access as a changes feed, because the response lists ids. */
export const CONFLICTS: RouteFacts = { ...COUNTED, access: "changes" };
export const DOCUMENT: RouteFacts = { ...COUNTED, access: "document" };
