/**
 * Authority of a stored thing: its author, and what vouched for him when he wrote it. It is stored with every leaf of a
 * `_replicator` document, every job and every rule, and is all that decides what such a thing may do. Whoever makes it take effect
 * later, by a deletion, a purge or a restart, lends it nothing.
 *
 * A name says nothing of rights: a token may name anybody.
 */
import type { SecuritySubject } from "./security/security-object.ts";

/** Statement of a token or a proxy about a user. */
export interface Vouched {
  /** Handler of `[chttpd] authentication_handlers` that accepted it: `jwt`, `proxy`. */
  readonly by: string;
  /** Roles at the time. They count as long as the thing is stored. */
  readonly roles: readonly string[];
}

export interface Authority {
  /** Null for a client of a server without administrators. */
  readonly userName: string | null;
  /** Absent for users of our own directory, which is asked at each use what they may do. */
  readonly vouched?: Vouched | undefined;
  /** Whether the author was a server admin at the time; absent in records that do not say. */
  readonly wasAdmin?: boolean | undefined;
  /** Whether a replication brought it: the author of the content is unknown, and this is the authority that let it in. */
  readonly isCopy?: boolean | undefined;
}

/** Returns the authority of what the user writes now. */
export function authorityOf({ userName, roles, isAdmin, vouchedBy }: SecuritySubject): Authority {
  const vouched = vouchedBy === undefined ? undefined : { by: vouchedBy, roles };
  return { userName, vouched, wasAdmin: isAdmin };
}

/**
 * Equal for two authorities exactly if they are of the same user: of the same name, and vouched for in the same way. No name in our
 * own directory contains a colon.
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

/** Whether it extends to secrets and files of the machine, as far as the past tells: the author must be a server admin now, too. */
export function mayNameSecrets({ wasAdmin, isCopy }: Authority): boolean {
  return wasAdmin !== false && isCopy !== true;
}

/** Returns the user that a token or a proxy vouched for, as databases know users. */
export function vouchedSubject(userName: string | null, { by, roles }: Vouched): SecuritySubject {
  return { userName, roles, isAdmin: roles.includes("_admin"), vouchedBy: by };
}
