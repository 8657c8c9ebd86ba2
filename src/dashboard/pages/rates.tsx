/** Rates of documents, starts and failures as charts: a sample every few seconds, for the last hour of this tab. */
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { readFigures } from "../api/nodes.ts";
import { get } from "../api/request.ts";
import type { JobPage } from "../api/types.ts";
import { useSurroundings } from "../base/context.ts";
import { formatNumber, type TimeZone } from "../base/format.ts";
import { addSample, perMinute, type Sample } from "../base/samples.ts";
import { useInterval } from "../base/use-loaded.ts";

const SAMPLE_MS = 5_000;
/** Running jobs whose rates are added up. */
const RUNNING_JOBS_MAX = 1_000;
/** The first samples are at the end of an empty chart. */
const SHOWN_SEC_MIN = 300;
const HEIGHT = 110;
const KEPT = "tandem.samples";

export function Rates() {
  const { isPaused } = useSurroundings();
  const [samples, setSamples] = useState<readonly Sample[]>(readKept);
  const take = async () => {
    if (isPaused) return;
    // What cannot be read is a gap in the chart; the page says why elsewhere.
    const sample = await takeSample().catch(() => undefined);
    if (sample === undefined) return;
    setSamples((before) => {
      const after = addSample(before, sample);
      keep(after);
      return after;
    });
  };
  useEffect(() => void take(), []);
  useInterval(() => void take(), SAMPLE_MS);
  const times = samples.map(({ timeMs }) => timeMs / 1000);
  return (
    <section aria-labelledby="rates-title">
      <h2 id="rates-title">Rates</h2>
      <p class="section-note">Since this tab was opened, for an hour at most.</p>
      <div class="charts">
        <Chart
          name="Documents written"
          unit="per second, all nodes"
          times={times}
          values={samples.map(({ docsPerSec }) => docsPerSec)}
          colour="--accent"
        />
        <Chart
          name="Runs started"
          unit="per minute, this node"
          times={times}
          values={perMinute(samples, ({ startCount }) => startCount)}
          colour="--muted"
        />
        <Chart
          name="Runs failed"
          unit="per minute, this node"
          times={times}
          values={perMinute(samples, ({ crashCount }) => crashCount)}
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
        x: { range: ({ data: [times] }) => shownSpan(times) },
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
      series: [{}, { stroke: colourOf(colour), width: 1.5, points: { show: false } }],
    },
    [[], []],
    element,
  );
}

/** In seconds. Not what uPlot offers: for a single sample that is a whole day. */
function shownSpan(times: ArrayLike<number>): [start: number, end: number] {
  const end = times[times.length - 1] ?? 0;
  return [Math.min(times[0] ?? 0, end - SHOWN_SEC_MIN), end];
}

function clockOf(timeSec: number, timeZone: TimeZone): string {
  return new Intl.DateTimeFormat("en-GB", { timeStyle: "medium", timeZone }).format(timeSec * 1000);
}

async function takeSample(): Promise<Sample> {
  const signal = new AbortController().signal;
  const [figures, running] = await Promise.all([
    readFigures(signal),
    get<JobPage>(`_tandem/jobs?state=running&limit=${RUNNING_JOBS_MAX}`),
  ]);
  return {
    timeMs: Date.now(),
    docsPerSec: running.jobs.reduce((sum, { docs_per_sec: rate }) => sum + rate, 0),
    startCount: figures.startCount,
    crashCount: figures.crashCount,
  };
}

/** A page that is loaded again goes on. */
function readKept(): readonly Sample[] {
  try {
    return JSON.parse(sessionStorage.getItem(KEPT) ?? "[]") as readonly Sample[];
  } catch {
    return [];
  }
}

function keep(samples: readonly Sample[]): void {
  try {
    sessionStorage.setItem(KEPT, JSON.stringify(samples));
  } catch {
    // For this page alone.
  }
}
