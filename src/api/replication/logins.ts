/** `GET /_tandem/logins`: accounts whose logins have to wait. CouchDB has no counterpart. */
import { type GatedLoginPage, type LoginGate, QUERIES } from "../../contract/index.ts";
import { type GatedAccount, isoTime, type Replicator } from "../../replicator/index.ts";
import { readQuery } from "../http/query.ts";
import { json } from "../http/responses.ts";
import { OPERATIONS } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";

export function loginRoutes({ logins }: Pick<Replicator, "logins">): readonly Route[] {
  return [
    defineRoute("GET", "/_tandem/logins", OPERATIONS, async (call) => {
      const { limit, skip } = readQuery(call, QUERIES["GET /_tandem/logins"]);
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
