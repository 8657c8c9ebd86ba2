/** What a security object says of a user (`couch_db:check_is_admin`, `check_is_member`). */
import type { JsonText } from "../../base/index.ts";

/** A user, as security objects name them. */
export interface SecuritySubject {
  readonly userName: string | null;
  readonly roles: readonly string[];
  /** A server admin, whom no security object keeps out. */
  readonly isAdmin: boolean;
}

interface Group {
  readonly names: readonly string[];
  readonly roles: readonly string[];
}

/** Whether the user may change design documents and settings. */
export function isDatabaseAdmin(security: JsonText, user: SecuritySubject): boolean {
  return user.isAdmin || belongs(groupOf(JSON.parse(security), "admins"), user);
}

/** Whether the user may read and write. A database without members is open to everybody. */
export function isDatabaseMember(security: JsonText, user: SecuritySubject): boolean {
  if (user.isAdmin) return true;
  const parsed = JSON.parse(security);
  const members = groupOf(parsed, "members");
  // What CouchDB 1.0 called them.
  const { names, roles } = parsed.members === undefined ? groupOf(parsed, "readers") : members;
  const isPublic = names.length === 0 && roles.length === 0;
  return isPublic || belongs({ names, roles }, user) || belongs(groupOf(parsed, "admins"), user);
}

function groupOf(security: Record<string, Partial<Group> | undefined>, name: string): Group {
  const { names = [], roles = [] } = security[name] ?? {};
  return { names, roles };
}

function belongs({ names, roles }: Group, { userName, roles: own }: SecuritySubject): boolean {
  return (
    (userName !== null && names.includes(userName)) || own.some((role) => roles.includes(role))
  );
}
