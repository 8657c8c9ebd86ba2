/** The node that a path below `/_node` names. */
import { ProtocolError } from "../../protocol/index.ts";

/** Only this node is known here; another one is down, as in CouchDB. */
export function requireNode(name: string, nodeName: string): void {
  if (name === "_local" || name === nodeName) return;
  throw new ProtocolError(412, "nodedown", `${name} is down`);
}
