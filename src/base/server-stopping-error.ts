import { OperationalError } from "./operational-error.ts";

/** The node stops before it could answer: another one, or the same after its restart, may. */
export class ServerStoppingError extends OperationalError {
  override readonly name = "ServerStoppingError";

  constructor() {
    super("API_SERVER_STOPPING", "The node is stopping");
  }
}
