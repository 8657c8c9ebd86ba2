/** Authorization: by the path of a request (`chttpd_auth_request`), and by the security object of its database. */
import { isDatabaseAdmin, isDatabaseMember } from "../../databases/index.ts";
import { ProtocolError } from "../../protocol/index.ts";
import type { ApiSettings, DatabaseParts } from "../api-parts.ts";
import type { Call } from "../http/call.ts";
import type { User } from "../http/exchange.ts";
import { isDatabaseSegment } from "../http/router.ts";
import { openSecurity, securitySubject } from "./database-access.ts";

/** What a user has to be to come in. */
type Demand =
  | "anybody"
  | "user"
  | "metrics-reader"
  | "server-admin"
  | "database-member"
  /** Of `_users`, whose design documents are not for everybody. */
  | "design-reader"
  | "database-admin";

/** Throws a ProtocolError, unless the caller is a server admin. */
export function requireAdmin({ user }: Pick<Call, "user">): void {
  if (!user.isAdmin) throw unauthorized("You are not a server admin.");
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
    case "user":
      if (user.name === null) throw unauthorized("You are not an authenticated user");
      return;
    case "metrics-reader":
      if (user.roles.includes("_metrics")) return;
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
    case "_utils":
      return method === "GET" || method === "HEAD" ? "anybody" : "server-admin";
    case "_replicate":
      return "user";
    // Whose job it is, its handler knows.
    case "_scheduler":
      return second === "jobs" && third !== undefined ? "anybody" : "server-admin";
    case "_node": {
      const isMetrics = ["_stats", "_system", "_prometheus"].includes(third ?? "");
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
    if (resource === "_local" || resource === "_local_docs") return "database-admin";
    const isRead = method === "GET" || method === "HEAD";
    if (isRead && /^_design(\/|$)/.test(resource)) return "design-reader";
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

async function authorizeInDatabase(
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

/** An anonymous user may log in and try again (401); a user with a name may not (403). */
function refusal(user: User, reason: string): ProtocolError {
  if (user.name === null) return unauthorized(reason);
  return new ProtocolError(403, "forbidden", reason);
}

/** CouchDB: 401 also to users with a name, where only server admins have access. */
function unauthorized(reason: string): ProtocolError {
  return new ProtocolError(401, "unauthorized", reason);
}
