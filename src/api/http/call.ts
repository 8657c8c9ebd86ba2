/** One request on its way through a handler: the request, its user, and the parts of the path. */
import type { Compression, Turns } from "../../base/index.ts";
import type { BodyAllowance } from "./body-budget.ts";
import type { ApiRequest, ApiResponse, User } from "./exchange.ts";

export interface Call {
  readonly request: ApiRequest;
  /** As the answer tells it: `X-Couch-Request-ID`. */
  readonly requestId: string;
  readonly user: User;
  /** What the placeholders of the route's path stand for, decoded. */
  readonly parameters: ReadonlyMap<string, string>;
  readonly bodies: BodyRules;
  /** What takes long gives them to other requests. */
  readonly turns: Turns;
}

/** What holds for bodies that are read whole. */
export interface BodyRules {
  readonly gunzip: Compression["gunzip"];
  /** After unpacking. */
  readonly byteCountMax: number;
  /** What the request holds of the memory for all bodies. */
  readonly allowance: BodyAllowance;
}

export type Handler = (call: Call) => Promise<ApiResponse>;

/** A placeholder's text; empty when the route's path does not name it. */
export function parameter(call: Call, name: string): string {
  return call.parameters.get(name) ?? "";
}
