import { expect, test } from "vitest";
import { emptyDistribution, RequestTimes } from "./request-times.ts";

const clockAt = (nowMs: () => number) => ({ monotonicMs: nowMs });

test("all figures are 0 before the first request, and then show its duration", () => {
  const times = new RequestTimes(clockAt(() => 0));
  const { percentile, histogram, ...figures } = emptyDistribution();
  expect(Object.values(figures).every((figure) => figure === 0)).toBe(true);
  expect(times.distribution()).toEqual(emptyDistribution());
  expect(times.samples("t").every(({ value }) => value === 0)).toBe(true);
  times.record(8);
  expect(times.distribution()).toMatchObject({ n: 1, min: 8 });
  const samples = times.samples("t").map(({ value }) => Math.round(value * 10_000));
  expect(samples).toEqual([80, 80, 80, 80, 80, 80, 80, 10_000]);
});

test.each([
  [59_999, 2],
  [60_000, 2],
  [119_999, 2],
  [120_000, 1],
  [1_000_000, 1],
])("after %i ms the distribution contains %i requests", (laterMs, count) => {
  let nowMs = 0;
  const times = new RequestTimes(clockAt(() => nowMs));
  times.record(8);
  nowMs = laterMs;
  times.record(8);
  expect(times.distribution()).toMatchObject({ n: count });
  expect(times.samples("t").at(-1)?.value).toBe(2);
});
