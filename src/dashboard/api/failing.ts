/** Failing jobs, grouped by error, side and host. */
import type { FailingPage } from "../../contract/index.ts";
import { get } from "./request.ts";

/** Largest groups first; at most 100. */
export function readFailing(signal: AbortSignal): Promise<FailingPage> {
  return get<FailingPage>("_tandem/failing", signal);
}
