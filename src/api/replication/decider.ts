/** Who decides something about jobs, and the reason that the body of the request gives. */
import { badRequest } from "../../protocol/index.ts";
import { type Decider, WHY_LENGTH_MAX } from "../../replicator/index.ts";
import type { Call } from "../http/call.ts";
import { readOnlyMember } from "../http/request-body.ts";

/** Of a command whose body, if there is one, says why and nothing else. Throws a ProtocolError 400. */
export async function readDecider(call: Call): Promise<Decider> {
  return deciderOf(call, await readOnlyMember(call, "why"));
}

/** `why` is what the body has; undefined, null and blanks say nothing. Throws a ProtocolError 400. */
export function deciderOf(
  { user, requestId }: Pick<Call, "user" | "requestId">,
  why: unknown,
): Decider {
  const decider = { userName: user.name, requestId };
  if (why === undefined || why === null) return decider;
  const text = typeof why === "string" ? why.trim() : undefined;
  if (text === undefined || text.length > WHY_LENGTH_MAX) {
    throw badRequest(`\`why\` must be a text of at most ${WHY_LENGTH_MAX} characters`);
  }
  return text === "" ? decider : { ...decider, why: text };
}
