/**
 * Authority of a stored object: its author, and the authentication handler that vouched for the
 * author when the object was written. It is stored with every leaf of a `_replicator` document,
 * every job and every rule. It alone decides what the object is allowed to do: the rights of
 * another user who later triggers the object, by a deletion, a purge or a restart, do not count.
 *
 * A name alone proves nothing, because a token can contain any name.
 */
import type { SecuritySubject } from "./security/security-object.ts";

/** Claims about a user that a token or a proxy made. */
export interface Vouched {
  /** Handler of `[chttpd] authentication_handlers` that accepted the claims: `jwt`, `proxy`. */
  readonly by: string;
  /** Roles when the object was written. They stay valid as long as the object is stored. */
  readonly roles: readonly string[];
}

export interface Authority {
  /** Name of the author; null for a client of a server without administrators. */
  readonly userName: string | null;
  /**
   * Claims of a token or proxy. Absent for users of our own directory, whose rights are looked up
   * on each use.
   */
  readonly vouched?: Vouched | undefined;
  /**
   * Whether the author was a server administrator when the object was written; absent in older
   * records.
   */
  readonly wasAdmin?: boolean | undefined;
  /**
   * Whether the object was written by a replication. If so, its author is unknown, and the
   * authority is that of the replication's job.
   */
  readonly isCopy?: boolean | undefined;
}

/** Returns the authority to record with anything that the user writes now. */
export function authorityOf({ userName, roles, isAdmin, vouchedBy }: SecuritySubject): Authority {
  const vouched = vouchedBy === undefined ? undefined : { by: vouchedBy, roles };
  return { userName, vouched, wasAdmin: isAdmin };
}

/**
 * Returns a key that is equal for two authorities if and only if they belong to the same user: same
 * name, vouched for in the same way. The keys of our own users and of vouched users are never
 * equal, because names in our own directory contain no colon.
 */
export function ownerKey({ userName, vouched }: Authority): string | null {
  return vouched === undefined ? userName : `${vouched.by}:${userName}`;
}

export function isSameAuthority(left: Authority, right: Authority): boolean {
  return (
    ownerKey(left) === ownerKey(right) &&
    JSON.stringify(left.vouched?.roles) === JSON.stringify(right.vouched?.roles) &&
    (left.isCopy ?? false) === (right.isCopy ?? false)
  );
}

/**
 * Whether the authority covers secrets and files of the machine, judged by the author's rights when
 * the object was written. The caller must also check that the author is still a server
 * administrator.
 */
export function mayNameSecrets({ wasAdmin, isCopy }: Authority): boolean {
  return wasAdmin !== false && isCopy !== true;
}

/** Returns the user that a token or proxy vouched for, in the form that databases use. */
export function vouchedSubject(userName: string | null, { by, roles }: Vouched): SecuritySubject {
  return { userName, roles, isAdmin: roles.includes("_admin"), vouchedBy: by };
}
