/** Jobs that fail, by error, side and host. */
import type { FailingPage } from "../../contract/index.ts";
import { get } from "./request.ts";

/** The largest groups first; 100 at most. */
export function readFailing(signal: AbortSignal): Promise<FailingPage> {
  return get<FailingPage>("_tandem/failing", signal);
}
