/** `GET /_tandem/events/_past`: the event log in pages. */
import type { PastPage } from "../../contract/index.ts";
import { get, withQuery } from "./request.ts";

/** The events before a position. Default: the latest. */
export function readPast(before: string | undefined, signal: AbortSignal): Promise<PastPage> {
  const path = "_tandem/events/_past";
  return get<PastPage>(withQuery(path, before === undefined ? {} : { before }), signal);
}
