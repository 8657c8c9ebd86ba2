/** Error 404 for a missing resource below `/_tandem/`. */
import { ProtocolError } from "../../protocol/index.ts";

/** `hint` describes the format of names, and where they are listed. */
export function noSuch(kind: string, name: string, hint: string): ProtocolError {
  return new ProtocolError(404, "not_found", `There is no ${kind} ${name}: ${hint}`);
}
