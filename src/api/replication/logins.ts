/** `GET /_tandem/logins`: accounts whose logins have to wait. CouchDB has no counterpart. */
import type { GatedLoginPage, LoginGate } from "../../contract/index.ts";
import { type GatedAccount, isoTime, type Replicator } from "../../replicator/index.ts";
import { integerParameter } from "../http/query.ts";
import { json } from "../http/responses.ts";
import { OPERATIONS } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";

const ROWS_DEFAULT = 100;
const ROWS_MAX = 1_000;

export function loginRoutes({ logins }: Pick<Replicator, "logins">): readonly Route[] {
  return [
    defineRoute("GET", "/_tandem/logins", OPERATIONS, async (call) => {
      const limit = Math.min(integerParameter(call, "limit") ?? ROWS_DEFAULT, ROWS_MAX);
      const skip = integerParameter(call, "skip") ?? 0;
      const page = await logins.page({ skip, limit });
      return json(200, {
        total_rows: page.total,
        logins: page.logins.map((login) => ({
          ...loginGateView(login),
          jobs: login.jobCount ?? null,
        })),
      } satisfies GatedLoginPage);
    }),
  ];
}

export function loginGateView({
  origin,
  account,
  status,
  words,
  sinceMs,
  untilMs,
}: GatedAccount): LoginGate {
  return {
    host: origin,
    username: account,
    status,
    reason: words,
    since: isoTime(sinceMs),
    next_attempt: isoTime(untilMs),
  };
}
