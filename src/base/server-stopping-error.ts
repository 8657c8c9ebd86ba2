import { OperationalError } from "./operational-error.ts";

/** The node is stopping and cannot answer. Another node, or this one after its restart, may. */
export class ServerStoppingError extends OperationalError {
  override readonly name = "ServerStoppingError";

  constructor() {
    super("API_SERVER_STOPPING", "The node is stopping");
  }
}
