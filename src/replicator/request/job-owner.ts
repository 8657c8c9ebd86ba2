/**
 * Whom a job belongs to, and with what rights it reads and writes databases of our own.
 *
 * A name says nothing of rights: a token may name anybody. So a job keeps who vouched for the name.
 */
import type { SecuritySubject } from "../../databases/index.ts";

/** What a token or a proxy said of a user in the request that a job comes from. */
export interface Vouched {
  /** The handler of `[chttpd] authentication_handlers` that accepted it: `jwt`, `proxy`. */
  readonly by: string;
  /** They count for as long as the job is there. */
  readonly roles: readonly string[];
}

export interface JobOwner {
  /** Null: whoever reaches a server without administrators. */
  readonly userName: string | null;
  /** Undefined: our own directory knows the user by a password, and is asked at each use what they may do. */
  readonly vouched?: Vouched | undefined;
}

export function ownerOf({ userName, roles, vouchedBy }: SecuritySubject): JobOwner {
  return { userName, vouched: vouchedBy === undefined ? undefined : { by: vouchedBy, roles } };
}

/**
 * Equal for two owners exactly if they are the same user: of the same name, and vouched for in the same way. No name in our own
 * directory contains a colon.
 */
export function ownerKey({ userName, vouched }: JobOwner): string | null {
  return vouched === undefined ? userName : `${vouched.by}:${userName}`;
}

/** The owner as the databases know users, where a token or a proxy vouched for them. */
export function vouchedSubject(userName: string | null, { by, roles }: Vouched): SecuritySubject {
  return { userName, roles, isAdmin: roles.includes("_admin"), vouchedBy: by };
}
