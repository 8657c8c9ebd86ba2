/** Context of a handler: the request, its user, and the parameters in its path. */
import type { Compression, Yielder } from "../../base/index.ts";
import type { BodyAllowance } from "./body-budget.ts";
import type { ApiRequest, ApiResponse, User } from "./exchange.ts";

export interface Call {
  readonly request: ApiRequest;
  /** The request id, also sent in the response header `X-Couch-Request-ID`. */
  readonly requestId: string;
  readonly user: User;
  /** Decoded values of the placeholders in the route's path. */
  readonly parameters: ReadonlyMap<string, string>;
  readonly bodies: BodyRules;
  /** Lets long work yield to other requests. */
  readonly yielder: Yielder;
}

/** Limits for buffered bodies, and the means to decompress them. */
export interface BodyRules {
  readonly gunzip: Compression["gunzip"];
  /** Maximum size of a buffered body after decompression. */
  readonly byteCountMax: number;
  /** The request's reservation in the memory budget for bodies. */
  readonly allowance: BodyAllowance;
}

export type Handler = (call: Call) => Promise<ApiResponse>;

/** The value of a placeholder; empty if the route's path does not contain it. */
export function parameter(call: Call, name: string): string {
  return call.parameters.get(name) ?? "";
}
