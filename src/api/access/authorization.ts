/** Authorization: by the path of a request (`chttpd_auth_request`), and by the security object of its database. */
import { isDatabaseAdmin, isDatabaseMember } from "../../databases/index.ts";
import { ProtocolError } from "../../protocol/index.ts";
import type { ApiSettings, DatabaseParts } from "../api-parts.ts";
import type { Call } from "../http/call.ts";
import type { User } from "../http/exchange.ts";
import { isDatabaseSegment } from "../http/router.ts";
import { openSecurity, securitySubject } from "./database-access.ts";

/** Reads the metrics of nodes, as in CouchDB. */
export const METRICS_ROLE = "_metrics";

/** A read-only operator: sees the jobs of everybody and the state of the server, and changes neither. */
export const READER_ROLE = "_tandem_reader";

/** What a user has to be to come in. */
type Demand =
  | "anybody"
  /** With a name, and no read-only operator. */
  | "replicating-user"
  | "metrics-reader"
  /** For a request that only reads; whatever changes something is for server admins. */
  | "operations-reader"
  | "server-admin"
  | "database-member"
  /** Of `_users`, whose design documents are not for everybody. */
  | "design-reader"
  | "database-admin";

/** Throws a ProtocolError, unless the caller is a server admin. */
export function requireAdmin({ user }: Pick<Call, "user">): void {
  if (!user.isAdmin) throw unauthorized("You are not a server admin.");
}

/** Whether the user may see the jobs of everybody. */
export function readsOperations({ isAdmin, roles }: User): boolean {
  return isAdmin || roles.includes(READER_ROLE);
}

/** Throws a ProtocolError, unless the user may come in. `segments` is the decoded path. */
export async function authorize(
  parts: Pick<DatabaseParts, "kv" | "databases" | "settings">,
  { method, segments }: { readonly method: string; readonly segments: readonly string[] },
  user: User,
): Promise<void> {
  if (user.isAdmin) return;
  const [first = "", ...rest] = segments;
  const demand =
    segments.length > 0 && isDatabaseSegment(first)
      ? demandOfDatabase(method, first, rest, parts.settings)
      : demandOfServer(method, segments, parts.settings.adminOnlyAllDatabases);
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

function demandOfServer(
  method: string,
  segments: readonly string[],
  adminOnlyAllDatabases: boolean,
): Demand {
  const [first, second, third] = segments;
  switch (first) {
    case undefined:
    case "favicon.ico":
    case "_up":
    case "_uuids":
    case "_session":
      return "anybody";
    case "_all_dbs":
    case "_dbs_info":
      return adminOnlyAllDatabases ? "server-admin" : "anybody";
    case "_dashboard":
    case "_utils":
      return isRead(method) ? "anybody" : "server-admin";
    case "_replicate":
      return "replicating-user";
    case "_active_tasks":
    case "_membership":
      return "operations-reader";
    case "_tandem":
      // Each request in it is looked at for itself.
      if (second === "_batch") return "anybody";
      return second === "replications" ? "replicating-user" : "operations-reader";
    // Whose job it is, its handler knows.
    case "_scheduler":
      return second === "jobs" && third !== undefined ? "anybody" : "operations-reader";
    case "_node": {
      if (third === undefined || third === "_active_tasks") return "operations-reader";
      // Who only reads learns that, as from every other change of an operator.
      if (third === "_config" && !isRead(method)) return "operations-reader";
      const isMetrics = ["_stats", "_system", "_prometheus"].includes(third);
      return isMetrics ? "metrics-reader" : "server-admin";
    }
    default:
      return "server-admin";
  }
}

function demandOfDatabase(
  method: string,
  database: string,
  rest: readonly string[],
  { usersListed }: ApiSettings,
): Demand {
  const [resource] = rest;
  if (resource === undefined) {
    return method === "PUT" || method === "DELETE" ? "server-admin" : "database-member";
  }
  if (database === "_global_changes") return "server-admin";
  if (database === "_users" && resource === "_all_docs" && usersListed) return "database-member";
  const isListing = resource === "_all_docs" || resource === "_changes";
  if (isListing && (database === "_users" || database === "_replicator")) return "server-admin";
  if (database === "_users") {
    // An encoded slash is part of the segment: `_local%2Fname` is a document, too.
    if (/^_local(\/|$)/.test(resource) || resource === "_local_docs") return "database-admin";
    if (isRead(method) && /^_design(\/|$)/.test(resource)) return "design-reader";
  }
  switch (resource) {
    case "_sync_shards":
    case "_purge":
    case "_purged_infos_limit":
      return "server-admin";
    case "_compact":
    case "_view_cleanup":
      return "database-admin";
    case "_security":
    case "_revs_limit":
    case "_auto_purge":
      return method === "PUT" ? "database-admin" : "database-member";
    default:
      return "database-member";
  }
}

/** Throws a ProtocolError, unless the user is a member, or an admin, of the database, or it is not there. */
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
  const reason = `Users with the role ${READER_ROLE} may read, and change nothing.`;
  return new ProtocolError(403, "forbidden", reason);
}

/** An anonymous user may log in and try again (401); a user with a name may not (403). */
function refusal(user: User, reason: string): ProtocolError {
  if (user.name === null) return unauthorized(reason);
  return new ProtocolError(403, "forbidden", reason);
}

/** CouchDB: 401 also to users with a name, where only server admins have access. */
function unauthorized(reason: string): ProtocolError {
  return new ProtocolError(401, "unauthorized", reason);
}
