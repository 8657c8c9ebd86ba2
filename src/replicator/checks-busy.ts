import { OperationalError } from "../base/index.ts";

/** Thrown if the maximum number of concurrent checks or plans of the node is reached. */
export class ChecksBusyError extends OperationalError {
  override readonly name = "ChecksBusyError";

  constructor() {
    super("REPLICATOR_CHECKS_BUSY", "Too many replications are being checked");
  }
}
