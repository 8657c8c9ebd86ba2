/** Check of the node name in paths below `/_node`. */
import { ProtocolError } from "../../protocol/index.ts";

/** Throws a ProtocolError 404 unless the name is that of this node, or `_local`. */
export function requireNode(name: string, nodeName: string): void {
  if (name === "_local" || name === nodeName) return;
  throw new ProtocolError(404, "not_found", `no such node: ${name}`);
}
