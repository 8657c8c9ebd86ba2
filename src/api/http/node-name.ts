/** The node named in a path below `/_node`. */
import { ProtocolError } from "../../protocol/index.ts";

/** Only this node is known here. */
export function requireNode(name: string, nodeName: string): void {
  if (name === "_local" || name === nodeName) return;
  throw new ProtocolError(404, "not_found", `no such node: ${name}`);
}
