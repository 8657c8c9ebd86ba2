/** Failing jobs, grouped by error, side and host. */
import type { FailingPage, GatedLoginPage } from "../../contract/index.ts";
import { get } from "./request.ts";

/** Returns up to 100 groups of failing jobs, largest first. */
export function readFailing(signal: AbortSignal): Promise<FailingPage> {
  return get<FailingPage>("_tandem/failing", signal);
}

/** Returns up to 100 accounts whose logins have to wait, the next attempt first. */
export function readGatedLogins(signal: AbortSignal): Promise<GatedLoginPage> {
  return get<GatedLoginPage>("_tandem/logins", signal);
}
