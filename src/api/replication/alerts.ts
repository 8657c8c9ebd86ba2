/** `/_tandem/alerts`: delivery of alerts, and test alerts. CouchDB has no counterpart. */
import type { AlertDelivery } from "../../contract/index.ts";
import { ProtocolError } from "../../protocol/index.ts";
import { isoTime, type Replicator } from "../../replicator/index.ts";
import { json } from "../http/responses.ts";
import { OPERATIONS } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";

export function alertRoutes({ alerts }: Pick<Replicator, "alerts">): readonly Route[] {
  return [
    defineRoute("GET", "/_tandem/alerts", OPERATIONS, async () => {
      const { sentMs, rejectedCount, failure, waitingCount } = await alerts.state();
      return json(200, {
        waiting: waitingCount,
        rejected: rejectedCount,
        last_sent: sentMs === undefined ? null : isoTime(sentMs),
        failure:
          failure === undefined
            ? null
            : { time: isoTime(failure.timeMs), error: failure.error, dropped: failure.isRejected },
      } satisfies AlertDelivery);
    }),
    defineRoute("POST", "/_tandem/alerts/_test", OPERATIONS, async ({ request }) => {
      const outcome = await alerts.send(request.signal);
      if (outcome === "unsent") {
        const reason =
          "No node has sent the test alert: set [alerts] url on a node that runs replications";
        throw new ProtocolError(503, "alert_not_sent", reason);
      }
      if (outcome.error === undefined) return json(200, { ok: true });
      const reason = `The receiver has not accepted the test alert: ${outcome.error}`;
      throw new ProtocolError(502, "alert_refused", reason);
    }),
  ];
}
