/** Makes the endpoint that an address names. */
import { type Fetch, Grants, RateLimits, type TlsSettings } from "../http-client/index.ts";
import type { MultipartParser } from "../protocol/index.ts";
import type { Endpoint } from "./endpoint.ts";
import { HttpEndpoint } from "./http-endpoint.ts";
import { LocalEndpoint, type LocalEndpointParts } from "./local-endpoint.ts";
import type { EndpointAddress, ReplicationOptions } from "./replication.ts";

export interface EndpointsParts extends LocalEndpointParts {
  readonly fetch: Fetch;
  readonly parseMultipart: MultipartParser;
  readonly userAgent: string;
  /** `health_threshold_sec`: a request is not repeated longer than half of it, or a failing job would pass for a healthy one. */
  readonly healthThresholdSec: number;
  /** How TLS is spoken with servers. */
  readonly tls: TlsSettings;
}

export class Endpoints {
  readonly #parts: EndpointsParts;
  readonly #rateLimits = new RateLimits();
  readonly #grants = new Grants();

  constructor(parts: EndpointsParts) {
    this.#parts = parts;
  }

  open(address: EndpointAddress, options: ReplicationOptions, userName: string | null): Endpoint {
    const parts = this.#parts;
    if (address.kind === "local") {
      return new LocalEndpoint(parts, address.database, { userName, roles: [], isAdmin: true });
    }
    return new HttpEndpoint(
      {
        runtime: parts.runtime,
        fetch: parts.fetch,
        rateLimits: this.#rateLimits,
        grants: this.#grants,
        tls: parts.tls,
        retry: {
          retryCountMax: options.retriesPerRequest,
          failingMsMax: parts.healthThresholdSec * 500,
        },
        parseMultipart: parts.parseMultipart,
        userAgent: parts.userAgent,
      },
      address,
      options,
    );
  }
}
