/** How fast a job copied in its last runs. Between databases of the node itself there is no traffic. */
import type { JobRun } from "../api/types.ts";
import { seriesOf } from "../base/run-series.ts";
import { Chart } from "../components/chart.tsx";

export function RunCharts({ runs }: { runs: readonly JobRun[] }) {
  const { times, docsPerSec, bytesPerSec } = seriesOf(runs);
  return (
    <section class="charts" aria-label="The last runs">
      <Chart
        name="Documents written"
        unit="per second, in each of the last runs"
        times={times}
        values={docsPerSec}
        colour="--accent"
      />
      {bytesPerSec.some((rate) => rate !== null && rate > 0) && (
        <Chart
          name="Traffic"
          unit="kB per second, in each of the last runs"
          times={times}
          values={bytesPerSec.map((rate) => (rate === null ? null : rate / 1_000))}
          colour="--muted"
        />
      )}
    </section>
  );
}
