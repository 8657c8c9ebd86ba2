/** `GET /_tandem/events/_past`: the event log in pages. */
import type { PastPage } from "../../contract/index.ts";
import { get, withQuery } from "./request.ts";
import type { Query } from "./types.ts";

/** The events before a position that match the filters. Default: the latest. */
export function readPast(
  query: Query,
  before: string | undefined,
  signal: AbortSignal,
): Promise<PastPage> {
  const position = before === undefined ? {} : { before };
  return get<PastPage>(withQuery("_tandem/events/_past", { ...query, ...position }), signal);
}
