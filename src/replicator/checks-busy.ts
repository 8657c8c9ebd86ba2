/** Error for requests beyond a node's concurrent checks. */
import { OperationalError } from "../base/index.ts";

/** The node's maximum of concurrent checks or plans is reached. */
export class ChecksBusyError extends OperationalError {
  override readonly name = "ChecksBusyError";

  constructor() {
    super("REPLICATOR_CHECKS_BUSY", "Too many replications are being checked");
  }
}
