/** Jobs that fail, by error, side and host. */
import { get } from "./request.ts";
import type { FailingPage } from "./types.ts";

/** The largest groups first; 100 at most. */
export function readFailing(signal: AbortSignal): Promise<FailingPage> {
  return get<FailingPage>("_tandem/failing", signal);
}
