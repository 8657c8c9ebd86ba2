/** What a node refuses to ask endpoints for, because it asks enough already. */
import { OperationalError } from "../base/index.ts";

/** As many checks or plans are under way as a node makes. */
export class ChecksBusyError extends OperationalError {
  override readonly name = "ChecksBusyError";

  constructor() {
    super("REPLICATOR_CHECKS_BUSY", "Too many replications are being checked");
  }
}
