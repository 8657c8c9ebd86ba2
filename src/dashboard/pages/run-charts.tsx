/**
 * Charts of lag, speed and network traffic of a job's last runs. A chart without values is omitted.
 */
import type { JobRun } from "../../contract/index.ts";
import { type LagSample, seriesOf } from "../base/run-series.ts";
import { Chart } from "../components/chart.tsx";

export function RunCharts({
  runs,
  lags,
}: {
  runs: readonly JobRun[];
  /** Samples of the lag by ascending time. */
  lags: readonly LagSample[];
}) {
  const { times, docsPerSec, bytesPerSec } = seriesOf(runs);
  return (
    <section class="charts" aria-label="Recent runs">
      {lags.some(({ lagSec }) => lagSec !== null) && (
        <Chart
          name="Lag"
          unit="seconds at the end of each recent run; updated live while this page is open"
          times={lags.map(({ timeSec }) => timeSec)}
          values={lags.map(({ lagSec }) => lagSec)}
          colour="--warning"
        />
      )}
      {docsPerSec.some((rate) => rate !== null && rate > 0) && (
        <Chart
          name="Documents written"
          unit="per second, by run"
          times={times}
          values={docsPerSec}
          colour="--accent"
        />
      )}
      {bytesPerSec.some((rate) => rate !== null && rate > 0) && (
        <Chart
          name="Traffic"
          unit="kB per second, by run"
          times={times}
          values={bytesPerSec.map((rate) => (rate === null ? null : rate / 1_000))}
          colour="--muted"
        />
      )}
    </section>
  );
}
