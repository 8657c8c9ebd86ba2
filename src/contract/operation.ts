/** An operation of the API, as its OpenAPI document describes it. */
import type { TSchema } from "@sinclair/typebox";
import type { Query } from "./queries.ts";

export interface Operation {
  readonly summary: string;
  readonly query?: Query;
  /** JSON of the request body; absent if it is not JSON. */
  readonly body?: TSchema;
  /** Whether a request without the body is valid. */
  readonly isBodyOptional?: boolean;
  /** JSON of a successful response; `undefined` for a stream or an HTML page. */
  readonly answer: TSchema | undefined;
}
