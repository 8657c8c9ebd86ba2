/**
 * Authorization by the path of a request (`chttpd_auth_request`) and by the security object of its
 * database.
 */
import { isDatabaseAdmin, isDatabaseMember } from "../../databases/index.ts";
import { ProtocolError } from "../../protocol/index.ts";
import type { ApiSettings, DatabaseParts } from "../api-parts.ts";
import type { Call } from "../http/call.ts";
import type { User } from "../http/exchange.ts";
import type { Access } from "../http/route-facts.ts";
import { isDatabaseSegment } from "../http/router.ts";
import { openSecurity, securitySubject } from "./database-access.ts";

/** CouchDB's role for reading the metrics of nodes. */
export const METRICS_ROLE = "_metrics";

/** Role of a read-only operator, who may read all jobs and the state of the server. */
export const READER_ROLE = "_tandem_reader";

/** Rights that a user needs for a request. */
type Demand =
  | "anybody"
  | "replicating-user"
  | "metrics-reader"
  | "operations-reader"
  | "server-admin"
  | "database-member"
  /** Like `database-admin`, for reading design documents of `_users`. */
  | "design-reader"
  | "database-admin";

/** Throws a ProtocolError unless the caller is a server administrator. */
export function requireAdmin({ user }: Pick<Call, "user">): void {
  if (!user.isAdmin) throw unauthorized("You are not a server admin.");
}

/** Whether the user may see all jobs. */
export function readsOperations({ isAdmin, roles }: User): boolean {
  return isAdmin || roles.includes(READER_ROLE);
}

export interface AccessRequest {
  readonly method: string;
  /** The path of the request, split into decoded segments. */
  readonly segments: readonly string[];
  /** Access of the route, or `undefined` if no route has the path. */
  readonly access: Access | undefined;
}

/** Throws a ProtocolError unless the user may call the route. */
export async function authorize(
  parts: Pick<DatabaseParts, "kv" | "databases" | "settings">,
  request: AccessRequest,
  user: User,
): Promise<void> {
  if (user.isAdmin) return;
  const { method } = request;
  const [first = ""] = databasePath(request);
  const demand = demandOf(request, parts.settings);
  switch (demand) {
    case "anybody":
      return;
    case "replicating-user":
      if (user.name === null) throw unauthorized("You are not an authenticated user");
      if (readsOperations(user)) throw readOnly();
      return;
    case "operations-reader":
      if (!readsOperations(user)) throw unauthorized("You are not a server admin.");
      if (!isRead(method)) throw readOnly();
      return;
    case "metrics-reader":
      if (user.roles.includes(METRICS_ROLE) || readsOperations(user)) return;
      throw unauthorized("You are not a server admin or read-only metrics user");
    case "server-admin":
      throw unauthorized("You are not a server admin.");
    case "database-member":
    case "database-admin":
      await authorizeInDatabase(parts, first, user, demand);
      return;
    case "design-reader":
      await authorizeInDatabase(parts, first, user, "database-member");
      if (isDatabaseAdmin(await openSecurity(parts, first), securitySubject(user))) return;
      throw refusal(user, "Only administrators can view design docs in the users database.");
  }
}

/**
 * The path from the database name on. Below `/_tandem/databases/`, the name is the third segment.
 */
function databasePath({ segments, access }: AccessRequest): readonly string[] {
  const isOurs = access !== undefined && segments[0] === "_tandem" && segments[1] === "databases";
  return isOurs ? segments.slice(2) : segments;
}

function demandOf(request: AccessRequest, settings: ApiSettings): Demand {
  const { method } = request;
  const [database = "", resource] = databasePath(request);
  const isInDatabase = resource !== undefined && isDatabaseSegment(database);
  if (isInDatabase && database === "_global_changes") return "server-admin";
  // A path without a route belongs to a document or is invalid.
  const { access = isInDatabase ? "document" : "server-admin" } = request;
  switch (access) {
    case "page":
      return isRead(method) ? "anybody" : "server-admin";
    case "database-list":
      return settings.adminOnlyAllDatabases ? "server-admin" : "anybody";
    case "configuration":
      // Only server administrators have access. For writes, `operations-reader` also rejects
      // everyone else, but its error tells read-only operators why.
      return isRead(method) ? "server-admin" : "operations-reader";
    case "database":
      return method === "PUT" || method === "DELETE" ? "server-admin" : "database-member";
    case "database-setting":
      return isRead(method) ? "database-member" : "database-admin";
    case "all-documents":
      if (database === "_users" && settings.usersListed) return "database-member";
      return isSystemDatabase(database) ? "server-admin" : "database-member";
    case "changes":
      return isSystemDatabase(database) ? "server-admin" : "database-member";
    case "local-documents":
      return database === "_users" ? "database-admin" : "database-member";
    case "document":
      return demandOfDocument(method, database, resource ?? "");
    default:
      return access;
  }
}

/**
 * Rights required for a document request. `id` is the first segment of the document's id. An
 * encoded slash belongs to the segment, so `_local%2Fname` is also a local document.
 */
function demandOfDocument(method: string, database: string, id: string): Demand {
  if (database !== "_users") return "database-member";
  if (/^_local(\/|$)/.test(id)) return "database-admin";
  return isRead(method) && /^_design(\/|$)/.test(id) ? "design-reader" : "database-member";
}

function isSystemDatabase(database: string): boolean {
  return database === "_users" || database === "_replicator";
}

/**
 * Throws a ProtocolError unless the user is a member of the database or, with `database-admin`, one
 * of its administrators. Also throws if the database does not exist.
 */
export async function authorizeInDatabase(
  parts: Pick<DatabaseParts, "kv" | "databases">,
  name: string,
  user: User,
  demand: "database-member" | "database-admin",
): Promise<void> {
  const security = await openSecurity(parts, name);
  const subject = securitySubject(user);
  if (!isDatabaseMember(security, subject)) {
    const verb = user.name === null ? "authorized" : "allowed";
    throw refusal(user, `You are not ${verb} to access this db.`);
  }
  if (demand === "database-admin" && !isDatabaseAdmin(security, subject)) {
    throw refusal(user, "You are not a db or server admin.");
  }
}

function isRead(method: string): boolean {
  return method === "GET" || method === "HEAD";
}

function readOnly(): ProtocolError {
  const reason = `Users with the role ${READER_ROLE} have read-only access.`;
  return new ProtocolError(403, "forbidden", reason);
}

/** 401 for an anonymous user, who can log in and try again; 403 for an authenticated user. */
function refusal(user: User, reason: string): ProtocolError {
  if (user.name === null) return unauthorized(reason);
  return new ProtocolError(403, "forbidden", reason);
}

/**
 * Error 401 for resources that require a server administrator. As in CouchDB, authenticated users
 * also get 401 rather than 403.
 */
function unauthorized(reason: string): ProtocolError {
  return new ProtocolError(401, "unauthorized", reason);
}
