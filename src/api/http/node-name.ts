/** Check of the node name in paths below `/_node`. */
import { ProtocolError } from "../../protocol/index.ts";

/** Throws a 404 for all names except those of this node. */
export function requireNode(name: string, nodeName: string): void {
  if (name === "_local" || name === nodeName) return;
  throw new ProtocolError(404, "not_found", `no such node: ${name}`);
}
