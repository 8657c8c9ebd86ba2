import { OperationalError } from "./operational-error.ts";

/**
 * The node is stopping and refuses the request. Clients can retry on another node, or after the
 * restart.
 */
export class ServerStoppingError extends OperationalError {
  override readonly name = "ServerStoppingError";

  constructor() {
    super("API_SERVER_STOPPING", "The node is stopping");
  }
}
