/** Endpoints of runs in the caller's process: commands without a server, and the library. */
import type { Runtime } from "../../base/index.ts";
import type { ReplicationOptions } from "../../contract/index.ts";
import {
  type ConnectTo,
  createSystemRuntime,
  openUndiciFetch,
  parseMultipart,
  type UndiciFetch,
} from "../../host/index.ts";
import {
  Activity,
  type Fetch,
  Grants,
  MemoryLoginGates,
  RateLimits,
  type RetriedFailure,
  SecretsInUse,
  withLoginGate,
} from "../../http-client/index.ts";
import {
  type Endpoint,
  EndpointError,
  type HttpAddress,
  HttpEndpoint,
  HttpServer,
  REPLICATOR_CONFIG_DEFAULT,
  type Replication,
  ReplicationInvalidError,
  resolveReferences,
} from "../../replicator/index.ts";
import { secretLookup } from "../../server/index.ts";

/**
 * Time for which a failing request is retried. For a job, this time depends on
 * `health_threshold_sec`, which does not apply here.
 */
const FAILING_MS_MAX = 60_000;

export interface Connections {
  readonly runtime: Runtime;
  /**
   * Performs one request. The rate limits for logins are shared by all endpoints.
   */
  readonly fetch: Fetch;
  /** Bytes transferred so far. */
  readonly activity: Activity;
  /** Secrets sent so far, to be masked in output. */
  readonly secrets: SecretsInUse;
  open(replication: Replication, side: "source" | "target"): Endpoint;
  /** Opens a connection to a server, to list its databases. */
  openServer(address: HttpAddress): HttpServer;
  close(): Promise<void>;
}

export interface ConnectionOptions {
  readonly userAgent: string;
  /** Called before a request is repeated. */
  readonly onRetry?: (failure: RetriedFailure) => void;
  /** Overrides of server addresses. */
  readonly connectTo?: readonly ConnectTo[];
}

export function openConnections({
  userAgent,
  onRetry,
  connectTo = [],
}: ConnectionOptions): Connections {
  const runtime = createSystemRuntime();
  const undici: UndiciFetch = openUndiciFetch({ connectTo: () => connectTo });
  const gates = new MemoryLoginGates(runtime);
  const fetch = withLoginGate(undici.fetch, { digests: runtime.digests, gates });
  const rateLimits = new RateLimits();
  const grants = new Grants();
  const secrets = new SecretsInUse();
  const { tls, client } = REPLICATOR_CONFIG_DEFAULT;
  const activity = new Activity(runtime.clock);
  const shared = {
    runtime,
    rateLimits,
    grants,
    secrets,
    tls,
    client,
    activity,
    parseMultipart,
    userAgent,
  };
  const partsFor = ({ retriesPerRequest }: ReplicationOptions) => {
    const retry = {
      retryCountMax: retriesPerRequest,
      failingMsMax: FAILING_MS_MAX,
      ...(onRetry === undefined ? {} : { onRetry }),
    };
    return { ...shared, fetch, retry };
  };
  return {
    runtime,
    fetch,
    activity,
    secrets,
    open(replication, side) {
      const address = replication[side];
      if (address.kind !== "http") {
        throw new ReplicationInvalidError(`\`${side}\` must be an http:// or https:// URL`);
      }
      const { options } = replication;
      return new HttpEndpoint(partsFor(options), resolveReferences(address, secretOf), options);
    },
    openServer(address) {
      const { options } = REPLICATOR_CONFIG_DEFAULT;
      return new HttpServer(partsFor(options), resolveReferences(address, secretOf), options);
    },
    close: () => undici.close(),
  };
}

/** Resolves a reference to a secret, with the rights of this process. */
function secretOf(reference: string, url: string): string {
  const lookUp = secretLookup(process.env, ["env:*", "file:*"]);
  const found = lookUp(reference, { url, isDirect: true });
  if (found.kind === "found") return found.secret;
  throw new EndpointError("secret_missing", found.reason);
}
