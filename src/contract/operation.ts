/** An operation of the API, as its OpenAPI document describes it. */
import type { TSchema } from "@sinclair/typebox";
import type { Query } from "./queries.ts";

export interface Operation {
  readonly summary: string;
  readonly query?: Query;
  /** Schema of a JSON request body; absent if the body is not JSON. */
  readonly body?: TSchema;
  /** Whether a request without the body is valid. */
  readonly isBodyOptional?: boolean;
  /** Schema of a successful JSON response; `undefined` for a stream or an HTML page. */
  readonly answer: TSchema | undefined;
}
