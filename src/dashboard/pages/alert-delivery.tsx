/** Delivery of alerts: the last failure, and a test. */
import { useState } from "preact/hooks";
import type { AlertDelivery } from "../../contract/index.ts";
import { client } from "../api/request.ts";
import { useRefresh, useSurroundings } from "../base/context.ts";
import { formatCount, formatNumber } from "../base/format.ts";
import { useLoaded } from "../base/use-loaded.ts";
import { Foreign, Moment, Problem } from "../components/text.tsx";

const REFRESH_MS = 15_000;

function useAlertDelivery() {
  const loaded = useLoaded((signal) => client.alerts.get({ signal }), "alerts");
  useRefresh(loaded.reload, REFRESH_MS);
  return loaded;
}

/** A warning if the receiver does not accept alerts. */
export function AlertProblem() {
  const { value } = useAlertDelivery();
  if (value === undefined || value.failure === null) return null;
  return (
    <p class="problem" role="alert">
      <Failure delivery={value} />
    </p>
  );
}

export function AlertDeliverySection() {
  const { session, announce } = useSurroundings();
  const { value, error, reload } = useAlertDelivery();
  const [refusal, setRefusal] = useState<unknown>();
  const [isSending, setIsSending] = useState(false);
  const send = async () => {
    setIsSending(true);
    setRefusal(undefined);
    try {
      await client.alerts.test();
      announce("The alert receiver accepted the test alert");
    } catch (failure) {
      setRefusal(failure);
    } finally {
      setIsSending(false);
      reload();
    }
  };
  return (
    <section aria-label="Alerts">
      <h2>Alerts</h2>
      <Problem error={refusal ?? error} />
      {value !== undefined && (
        <p class="section-note">
          {`${formatCount(value.waiting, "alert")} waiting, ${formatNumber(value.rejected)} rejected. Last sent: `}
          {value.last_sent === null ? "unknown" : <Moment time={value.last_sent} />}.{" "}
          {value.failure !== null && <Failure delivery={value} />}
        </p>
      )}
      {session.changes && (
        <button type="button" disabled={isSending} onClick={() => void send()}>
          {isSending ? "Sending…" : "Send test alert"}
        </button>
      )}
    </section>
  );
}

function Failure({ delivery: { failure, waiting } }: { delivery: AlertDelivery }) {
  if (failure === null) return null;
  return (
    <>
      {failure.dropped
        ? "The alert receiver rejected a message, which was dropped"
        : `The alert receiver does not respond; ${formatCount(waiting, "alert")} waiting`}{" "}
      (<Moment time={failure.time} />
      ): <Foreign text={failure.error} />
    </>
  );
}
