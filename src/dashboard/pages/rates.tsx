/** Charts of documents, starts and failures per second on all nodes, for the last hour. */
import type { Rates as MinuteRates, RateMinute } from "../../contract/index.ts";
import { get } from "../api/request.ts";
import { useRefresh } from "../base/context.ts";
import { perSecond } from "../base/rates.ts";
import { useLoaded } from "../base/use-loaded.ts";
import { Chart } from "../components/chart.tsx";
import { Problem } from "../components/text.tsx";

const REFRESH_MS = 5_000;

export function Rates() {
  const { value, error, reload } = useLoaded(
    (signal) => get<MinuteRates>("_tandem/rates", signal),
    "rates",
  );
  const minutes = value?.minutes ?? [];
  useRefresh(reload, REFRESH_MS);
  const times = minutes.map(({ time }) => Date.parse(time) / 1000);
  const ratesOf = (countOf: (minute: RateMinute) => number | null) => perSecond(minutes, countOf);
  const perMinute = (rate: number | null) => (rate === null ? null : rate * 60);
  return (
    <section aria-labelledby="rates-title">
      <h2 id="rates-title">The last hour</h2>
      <Problem error={error} />
      <div class="charts">
        <Chart
          name="Documents written"
          unit="per second"
          times={times}
          values={ratesOf(({ docs_written }) => docs_written)}
          colour="--accent"
        />
        <Chart
          name="Runs started"
          unit="per minute"
          times={times}
          values={ratesOf(({ starts }) => starts).map(perMinute)}
          colour="--muted"
        />
        <Chart
          name="Runs failed"
          unit="per minute"
          times={times}
          values={ratesOf(({ failures }) => failures).map(perMinute)}
          colour="--bad"
        />
      </div>
    </section>
  );
}
