/** Who may do what. For now every resource but the few public ones is for server admins. */
import { ProtocolError } from "../protocol/index.ts";
import type { Call } from "./call.ts";
import type { User } from "./exchange.ts";
import { type Access, isDatabaseSegment } from "./router.ts";

/** Throws a ProtocolError, unless the caller is a server admin. */
export function requireAdmin({ user }: Pick<Call, "user">): void {
  if (!user.isAdmin) throw refusal(user, "You are not a server admin.");
}

/** Throws a ProtocolError, unless the user may come in. `segments` is the decoded path. */
export function requireAccess(access: Access, user: User, segments: readonly string[]): void {
  if (access === "public" || user.isAdmin) return;
  const isDatabase = isDatabaseSegment(segments[0] ?? "_") && segments.length > 0;
  if (!isDatabase) throw refusal(user, "You are not a server admin.");
  const verb = user.name === null ? "authorized" : "allowed";
  throw refusal(user, `You are not ${verb} to access this db.`);
}

/** Somebody unknown may log in and try again; somebody known may not. */
function refusal(user: User, reason: string): ProtocolError {
  if (user.name === null) return new ProtocolError(401, "unauthorized", reason);
  return new ProtocolError(403, "forbidden", reason);
}
