/** Failing jobs, grouped by error, side and host. */
import type { FailingPage } from "../../contract/index.ts";
import { get } from "./request.ts";

/** Returns up to 100 groups of failing jobs, largest first. */
export function readFailing(signal: AbortSignal): Promise<FailingPage> {
  return get<FailingPage>("_tandem/failing", signal);
}
