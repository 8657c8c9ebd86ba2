/** Opens the endpoint at an address. */

import { REPLICATION_OPTIONS_DEFAULT, type ReplicationOptions } from "../../contract/index.ts";
import { type Authority, mayNameSecrets, ownerKey, vouchedSubject } from "../../databases/index.ts";
import {
  type Activity,
  type EndpointSpending,
  type Fetch,
  Grants,
  Latencies,
  type LoginGates,
  RateLimits,
  SecretsInUse,
  type Spending,
  withBatches,
  withBudget,
  withDecoding,
  withLatency,
  withLoginGate,
} from "../../http-client/index.ts";
import type { MultipartParser } from "../../protocol/index.ts";
import type { ReplicatorConfig } from "../replicator-config.ts";
import { namesMachine } from "../request/admin-only.ts";
import { schemeOf } from "../request/endpoint-url.ts";
import { resolveReferences } from "../request/references.ts";
import type { EndpointAddress, HttpAddress, ResolvedAddress } from "../request/replication.ts";
import { type Endpoint, EndpointError } from "./endpoint.ts";
import { type HostMeasure, hostMeasures } from "./host-measures.ts";
import { HttpEndpoint } from "./http/http-endpoint.ts";
import { HttpServer } from "./http/http-server.ts";
import type { Hazardous, HttpRequestsParts } from "./http/requests.ts";
import type { LocalEndpointParts } from "./local/access.ts";
import { GroupedWrites } from "./local/grouped-writes.ts";
import { LocalEndpoint } from "./local/local-endpoint.ts";

export interface EndpointsParts extends LocalEndpointParts {
  readonly fetch: Fetch;
  readonly parseMultipart: MultipartParser;
  readonly userAgent: string;
  /** Looks up the environment variables and files from which jobs take their secrets. */
  readonly lookUpSecret: SecretLookup;
  /** Limits login attempts per account, across all nodes. */
  readonly loginGates: LoginGates;
  /** Returns functions that wait until an endpoint's budgets permit a request. */
  readonly spendingFor: (address: EndpointAddress) => EndpointSpending;
  /** Settings for connections. Read at each use, so that changed settings apply. */
  readonly config: Pick<
    ReplicatorConfig,
    "healthThresholdSec" | "stallTimeoutSec" | "tls" | "client"
  >;
}

/** The recipient of a secret. */
export interface SecretDestination {
  readonly url: string;
  /**
   * Whether only this server can receive the secret: neither an impostor of the server nor a proxy
   * can read it.
   */
  readonly isDirect: boolean;
}

/**
 * Resolves a secret reference (`references.ts`). `missing`: the reference cannot be resolved, or
 * its secret must not be sent to the destination. The `reason` reveals no secret. Without a
 * `destination`, a secret that is bound to servers is not resolved.
 */
export type SecretLookup = (
  reference: string,
  destination?: SecretDestination,
) =>
  | { readonly kind: "found"; readonly secret: string }
  | { readonly kind: "missing"; readonly reason: string };

/** Options that a run sets for its connections. */
export interface RunConnections {
  /** Records the transfers of the run, for detecting stalls. */
  readonly activity?: Activity;
  /** Generation of the connections. Connections of an earlier generation are not reused. */
  readonly generation?: number;
  /**
   * Performs work that can crash the node, such as parsing a long response. The store keeps a
   * record of the work while it is in progress.
   */
  readonly during?: Hazardous;
  /** Id of the job. A local target stores the id with each conflict that the job causes. */
  readonly jobId?: string;
  /**
   * Secrets of the job, which are masked in messages. By default, each endpoint masks only its own
   * secrets.
   */
  readonly secrets?: SecretsInUse;
}

export class Endpoints {
  readonly #parts: EndpointsParts;
  readonly #fetch: Fetch;
  readonly #latencies: Latencies;
  readonly #rateLimits = new RateLimits();
  readonly #grants = new Grants();
  readonly #logWrites: GroupedWrites;

  constructor(parts: EndpointsParts) {
    this.#parts = parts;
    const { clock } = parts.runtime;
    this.#latencies = new Latencies(clock);
    this.#logWrites = new GroupedWrites(clock, parts.kv);
    const { digests, compression } = parts.runtime;
    const fetch = withLatency(
      clock,
      withBatches(clock, withDecoding(parts.fetch, compression)),
      this.#latencies,
    );
    this.#fetch = withLoginGate(fetch, { digests, gates: parts.loginGates });
  }

  /** Returns the measurements of this process for the servers with the most requests. */
  hostMeasures(): readonly HostMeasure[] {
    return hostMeasures(this.#latencies, this.#rateLimits);
  }

  /** Opens an endpoint. Throws an EndpointError if the address refers to a missing secret. */
  open(
    address: EndpointAddress,
    options: ReplicationOptions,
    owner: Authority,
    { activity, generation, during, jobId, secrets = new SecretsInUse() }: RunConnections = {},
  ): Endpoint {
    const parts = this.#parts;
    if (address.kind === "local") {
      return new LocalEndpoint(parts, address.database, {
        owner,
        jobId,
        logWrites: this.#logWrites,
      });
    }
    const budgets = parts.spendingFor(address);
    // Time spent waiting for a budget must not count as a stall of the run.
    const spending = activity === undefined ? budgets : excused(budgets, activity);
    return new HttpEndpoint(
      {
        ...this.#requestsParts(address, owner, { spending, options, activity, secrets }),
        spending,
        stallTimeoutMs: parts.config.stallTimeoutSec * 1000,
        parseMultipart: parts.parseMultipart,
        activity,
        generation,
        during,
      },
      this.#resolved(address),
      options,
    );
  }

  /** Whether the owner of a job is currently a server administrator. */
  async isAdmin({ userName, vouched }: Authority): Promise<boolean> {
    const { resolveUser } = this.#parts;
    const user = vouched === undefined ? resolveUser(userName) : vouchedSubject(userName, vouched);
    return (await user)?.isAdmin === true;
  }

  /** Opens the server with this root URL. Throws like `open`. */
  openServer(address: HttpAddress, owner: Authority = NO_RIGHTS, onRetry?: () => void): HttpServer {
    const spending = this.#parts.spendingFor(address);
    const options = REPLICATION_OPTIONS_DEFAULT;
    const secrets = new SecretsInUse();
    return new HttpServer(
      this.#requestsParts(address, owner, { spending, options, secrets, onRetry }),
      this.#resolved(address),
      options,
    );
  }

  /**
   * Returns the `fetch` for an address. If the address refers to files or secrets of this machine,
   * this `fetch` rejects requests once the author of the job is no longer allowed to use them.
   */
  #permitted(address: HttpAddress, owner: Authority): Fetch {
    if (!namesMachine(address)) return this.#fetch;
    return async (request) => {
      if (mayNameSecrets(owner) && (await this.isAdmin(owner))) return this.#fetch(request);
      throw new EndpointError("forbidden", NOT_PERMITTED);
    };
  }

  #requestsParts(
    address: HttpAddress,
    owner: Authority,
    {
      spending,
      options,
      activity,
      secrets,
      onRetry,
    }: {
      readonly spending: EndpointSpending;
      readonly options: ReplicationOptions;
      readonly activity?: Activity | undefined;
      readonly secrets: SecretsInUse;
      readonly onRetry?: (() => void) | undefined;
    },
  ): HttpRequestsParts {
    const parts = this.#parts;
    return {
      runtime: parts.runtime,
      fetch: withBudget(this.#permitted(address, owner), spending),
      rateLimits: this.#rateLimits,
      grants: this.#grants,
      // A grant is renewed with the rights of the job that obtained it first, so it is shared only
      // by jobs with the same rights.
      grantScope: namesMachine(address) ? [ownerKey(owner), mayNameSecrets(owner)] : [],
      secrets,
      tls: parts.config.tls,
      client: parts.config.client,
      retry: {
        retryCountMax: options.retriesPerRequest,
        // Retries end after half of `health_threshold_sec`: otherwise, a job that only repeats
        // failing requests would count as healthy.
        failingMsMax: parts.config.healthThresholdSec * 500,
        ...(onRetry === undefined ? {} : { onRetry }),
        onPause: (pauseMs) => {
          activity?.expectSilence(pauseMs);
          activity?.waits.expect("limiter", pauseMs);
        },
      },
      userAgent: parts.userAgent,
    };
  }

  #resolved(address: HttpAddress): ResolvedAddress {
    const { tls, proxyUrl } = address;
    return resolveReferences(address, (reference, url) => {
      const isVerified = tls?.verify ?? this.#parts.config.tls.verify;
      const isDirect = schemeOf(url) === "https" ? isVerified : proxyUrl === undefined;
      return this.#secret(reference, { url, isDirect });
    });
  }

  #secret(reference: string, destination: SecretDestination): string {
    const found = this.#parts.lookUpSecret(reference, destination);
    if (found.kind === "missing") throw new EndpointError("secret_missing", found.reason);
    // A secret with characters that are not allowed in a header would make `fetch` throw an error
    // that contains the secret.
    if (/^[\t\x20-\x7e\x80-\xff]+$/.test(found.secret)) return found.secret;
    throw new EndpointError(
      "secret_missing",
      `${reference} has a character that is not allowed in a header`,
    );
  }
}

const NO_RIGHTS: Authority = { userName: null, wasAdmin: false };
const NOT_PERMITTED =
  "The job refers to a secret or a file of the server, but its author is not a server admin";

/** Wraps budgets so that waiting for them does not count as a stall of the run. */
export function excused({ read, write }: EndpointSpending, activity: Activity): EndpointSpending {
  const over = (spending: Spending): Spending => ({
    spend: (unit, count, signal) => {
      const waiting = spending.spend(unit, count, signal);
      if (waiting !== undefined) return activity.excuse(activity.waits.during("budget", waiting));
      activity.moved(0);
      return undefined;
    },
  });
  return { read: over(read), write: over(write) };
}
