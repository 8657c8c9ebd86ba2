/** Rates of documents, starts and failures of all nodes as charts: the last hour, as the server has it. */
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { type RateMinute, readRates } from "../api/nodes.ts";
import { useSurroundings } from "../base/context.ts";
import { formatNumber, type TimeZone } from "../base/format.ts";
import { perSecond } from "../base/rates.ts";
import { useInterval, useLoaded } from "../base/use-loaded.ts";
import { Problem } from "../components/text.tsx";

const REFRESH_MS = 5_000;
const HEIGHT = 110;

export function Rates() {
  const { isPaused } = useSurroundings();
  const { value: minutes = [], error, reload } = useLoaded(readRates, "rates");
  useInterval(() => {
    if (!isPaused) reload();
  }, REFRESH_MS);
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

function Chart({
  name,
  unit,
  times,
  values,
  colour,
}: {
  name: string;
  unit: string;
  times: readonly number[];
  values: readonly (number | null)[];
  /** A custom property of the styles. */
  colour: string;
}) {
  const place = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | undefined>(undefined);
  const { timeZone } = useSurroundings();
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const made = makeChart(element, colour, timeZone);
    chart.current = made;
    const resized = new ResizeObserver(() => {
      made.setSize({ width: element.clientWidth, height: HEIGHT });
    });
    resized.observe(element);
    return () => {
      resized.disconnect();
      made.destroy();
    };
  }, [colour, timeZone]);
  useEffect(() => chart.current?.setData([[...times], [...values]]), [times, values, timeZone]);
  const last = values.findLast((value) => value !== null) ?? null;
  return (
    <figure class="chart">
      <figcaption>
        <span>{name}</span>
        <strong>{last === null ? "–" : formatNumber(Math.round(last * 10) / 10)}</strong>
        <span class="chart-unit">{unit}</span>
      </figcaption>
      <div ref={place} role="img" aria-label={`${name} ${unit}`} />
    </figure>
  );
}

function makeChart(element: HTMLElement, colour: string, timeZone: TimeZone): uPlot {
  const colourOf = (name: string) => () => getComputedStyle(element).getPropertyValue(name).trim();
  const axis = {
    stroke: colourOf("--muted"),
    grid: { stroke: colourOf("--line"), width: 1 },
    size: 40,
  };
  return new uPlot(
    {
      width: element.clientWidth,
      height: HEIGHT,
      legend: { show: false },
      cursor: { show: false },
      ...(timeZone === undefined
        ? {}
        : { tzDate: (sec) => uPlot.tzDate(new Date(sec * 1000), timeZone) }),
      scales: {
        x: { range: ({ data: [times] }) => [times[0] ?? 0, times.at(-1) ?? 1] },
        y: { range: (_, min, max) => [Math.min(0, min ?? 0), Math.max(1, (max ?? 0) * 1.1)] },
      },
      axes: [
        {
          ...axis,
          size: 24,
          space: 70,
          values: ({ data: [samples] }, times) =>
            samples.length === 0 ? [] : times.map((sec) => clockOf(sec, timeZone)),
        },
        { ...axis, size: 44 },
      ],
      series: [{}, { stroke: colourOf(colour), width: 1.5, points: { size: 4 } }],
    },
    [[], []],
    element,
  );
}

function clockOf(timeSec: number, timeZone: TimeZone): string {
  return new Intl.DateTimeFormat("en-GB", { timeStyle: "short", timeZone }).format(timeSec * 1000);
}
