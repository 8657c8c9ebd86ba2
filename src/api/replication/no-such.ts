/** What a path of `/_tandem/` names is not there. */
import { ProtocolError } from "../../protocol/index.ts";

/** `hint`: how names look, and where they are listed. */
export function noSuch(kind: string, name: string, hint: string): ProtocolError {
  return new ProtocolError(404, "not_found", `There is no ${kind} ${name}: ${hint}`);
}
