/** The user who issued a command for jobs, and the reason given in the body. */
import { badRequest } from "../../protocol/index.ts";
import { type Decider, WHY_LENGTH_MAX } from "../../replicator/index.ts";
import type { Call } from "../http/call.ts";
import { readOnlyMember } from "../http/request-body.ts";

/**
 * Returns the user who issued a command, with the reason in the optional body. Throws a
 * ProtocolError 400.
 */
export async function readDecider(call: Call): Promise<Decider> {
  return deciderOf(call, await readOnlyMember(call, "why"));
}

/**
 * Returns the user who issued a command, with the reason `why` unless it is undefined, null or
 * blank. Throws a ProtocolError 400.
 */
export function deciderOf(
  { user, requestId }: Pick<Call, "user" | "requestId">,
  why: unknown,
): Decider {
  const decider = { userName: user.name, requestId };
  if (why === undefined || why === null) return decider;
  const text = typeof why === "string" ? why.trim() : undefined;
  if (text === undefined || text.length > WHY_LENGTH_MAX) {
    throw badRequest(`\`why\` must be a string of at most ${WHY_LENGTH_MAX} characters`);
  }
  return text === "" ? decider : { ...decider, why: text };
}
