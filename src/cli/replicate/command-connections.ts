/**
 * Connections for commands that do not use a Tandem server, and the options for these connections.
 */
import type { ConnectTo } from "../../host/index.ts";
import { type Connections, openConnections as open } from "../../library/index.ts";
import { VERSION } from "../../server/index.ts";
import { retryReporter } from "../terminal/describe-error.ts";

export interface ConnectionFlags {
  readonly connectTo?: readonly ConnectTo[];
  readonly json?: boolean;
}

/** Opens connections. Reports retries unless JSON was requested. */
export function openConnections({ connectTo = [], json }: ConnectionFlags): Connections {
  return open({
    userAgent: `Tandem/${VERSION}`,
    connectTo,
    ...(json === true ? {} : { onRetry: retryReporter() }),
  });
}
