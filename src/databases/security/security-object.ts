/** Rights that a security object grants (`couch_db:check_is_admin`, `check_is_member`). */
import type { JsonText } from "../../base/index.ts";

/**
 * The rights of a user, which decide whether the user may read or write here.
 *
 * Related types: `User` (`api`): who sends a request, and how the sender was authenticated.
 * `WriteContext` (`hooks.ts`): who writes, and how the edits are judged. `Requester`
 * (`replicator`): who starts or cancels a transient job.
 */
export interface SecuritySubject {
  /**
   * Name of the user; null for a user without a name: anonymous, or any client of a server without
   * administrators.
   */
  readonly userName: string | null;
  readonly roles: readonly string[];
  /** Whether the user is a server administrator, to whom security objects do not apply. */
  readonly isAdmin: boolean;
  /**
   * Handler that vouched for name and roles (`jwt`, `proxy`); absent for the server's own directory
   * of users.
   */
  readonly vouchedBy?: string;
}

interface Group {
  readonly names: readonly string[];
  readonly roles: readonly string[];
}

/** Whether the user may change design documents and settings. */
export function isDatabaseAdmin(security: JsonText, user: SecuritySubject): boolean {
  return user.isAdmin || belongs(groupOf(JSON.parse(security), "admins"), user);
}

/** Whether the user may read and write. A database without members is public. */
export function isDatabaseMember(security: JsonText, user: SecuritySubject): boolean {
  if (user.isAdmin) return true;
  const parsed = JSON.parse(security);
  const members = groupOf(parsed, "members");
  // CouchDB 1.0 called the members `readers`.
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
