/** An endpoint for a command that works without a server. */

import type { Runtime } from "../base/index.ts";
import {
  createSystemRuntime,
  openUndiciFetch,
  parseMultipart,
  type UndiciFetch,
} from "../host/index.ts";
import { withRetry } from "../http-client/index.ts";
import {
  type Endpoint,
  HttpEndpoint,
  type Replication,
  ReplicationInvalidError,
} from "../replicator/index.ts";

export interface Connections {
  readonly runtime: Runtime;
  open(replication: Replication, side: "source" | "target"): Endpoint;
  close(): Promise<void>;
}

export function openConnections(userAgent: string): Connections {
  const runtime = createSystemRuntime();
  const undici: UndiciFetch = openUndiciFetch();
  return {
    runtime,
    open(replication, side) {
      const address = replication[side];
      if (address.kind !== "http") {
        throw new ReplicationInvalidError(`\`${side}\` must be an http:// or https:// URL`);
      }
      const { retriesPerRequest } = replication.options;
      const fetchPatiently = withRetry(runtime, undici.fetch, {
        retryCountMax: retriesPerRequest,
        failingMsMax: 60_000,
      });
      return new HttpEndpoint(
        { runtime, fetchOnce: undici.fetch, fetchPatiently, parseMultipart, userAgent },
        address,
        replication.options,
      );
    },
    close: () => undici.close(),
  };
}
