/** A small chart of one figure over time. */
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useSurroundings } from "../base/context.ts";
import { formatNumber, type TimeZone } from "../base/format.ts";

const HEIGHT = 110;

export function Chart({
  name,
  unit,
  times,
  values,
  colour,
}: {
  name: string;
  unit: string;
  /** Unix times in seconds, ascending. */
  times: readonly number[];
  /** Null for unknown values, which leave a gap. */
  values: readonly (number | null)[];
  /** Name of the CSS custom property with the colour of the line. */
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
        <strong>{last === null ? "Unknown" : formatNumber(Math.round(last * 10) / 10)}</strong>
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
          values: ({ data: [samples] }, times, _axis, _space, stepSec) =>
            samples.length === 0 ? [] : clocksOf(times, stepSec, timeZone),
        },
        { ...axis, size: 44 },
      ],
      series: [{}, { stroke: colourOf(colour), width: 1.5, points: { size: 4 } }],
    },
    [[], []],
    element,
  );
}

/**
 * Formats the labels of the time axis. If the ticks are less than a minute apart, labels include
 * seconds. If they are less than a second apart, repeated labels are left empty.
 */
function clocksOf(timesSec: readonly number[], stepSec: number, timeZone: TimeZone): string[] {
  const timeStyle = stepSec < 60 ? "medium" : "short";
  const format = new Intl.DateTimeFormat("en-GB", { timeStyle, timeZone });
  const clocks = timesSec.map((sec) => format.format(sec * 1000));
  return clocks.map((clock, index) => (clock === clocks[index - 1] ? "" : clock));
}
