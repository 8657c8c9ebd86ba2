/** Gauges of jobs. The cardinality of their labels is bounded, however many names exist. */
import { Registry } from "prom-client";
import { expect, test } from "vitest";
import type { JobFigures } from "../../src/replicator/index.ts";
import { jobGauges, registerGauge } from "../../src/server/metrics/gauges.ts";

const NOTHING: JobFigures = {
  states: { pending: 0, running: 0, crashing: 0, completed: 0, failed: 0 },
  failing: [],
  pausedCount: 0,
  stalledCount: 0,
  parkedCount: 0,
  leftBehindCount: 0,
  behindCount: 0,
  unknownCount: 0,
  groupLags: [],
  jobLags: [],
};

const rowNamed = (figures: JobFigures, name: string) => {
  const row = jobGauges(figures).find(({ path }) => path.join("_") === name);
  if (row === undefined) throw new Error(`There is no ${name}`);
  return row;
};

test("the fifty most frequent causes of failures have their own labels, and all other causes are summed", () => {
  const failing = Array.from({ length: 80 }, (_, n) => ({
    class: n % 2 === 0 ? ("dns" as const) : ("timeout" as const),
    host: `h${n}`,
    jobCount: 100 - n,
  }));
  const { samples } = rowNamed({ ...NOTHING, failing }, "tandem_jobs_failing_by_cause");
  expect(samples).toHaveLength(52);
  expect(samples.at(0)).toEqual({ labels: ["dns", "h0"], value: 100 });
  const others = samples.filter(({ labels }) => labels[1] === "other");
  expect(others.map(({ labels }) => labels[0])).toEqual(["dns", "timeout"]);
  const total = (values: readonly number[]) => values.reduce((left, right) => left + right, 0);
  const all = failing.map(({ jobCount }) => jobCount);
  expect(total(samples.map(({ value }) => value))).toBe(total(all));
  expect(rowNamed({ ...NOTHING, failing }, "tandem_jobs_failing").samples[0]?.value).toBe(
    total(all),
  );
});

test("hostile names are escaped and truncated, and never make a scrape fail", async () => {
  const names = [
    '_replicator/a"b\\c\nd',
    `_replicator/${"x".repeat(5000)}1`,
    "\ud800",
    "__proto__",
  ];
  const jobLags = names.map((name, n) => ({ name, lagSec: 100 - n }));
  const again = { name: `_replicator/${"x".repeat(5000)}2`, lagSec: 1 };
  const registry = new Registry();
  const figures = { ...NOTHING, jobLags: [...jobLags, again] };
  registerGauge(registry, "worst", rowNamed(figures, "tandem_worst_jobs_lag_seconds"));
  const lines = (await registry.metrics()).split("\n").filter((line) => line.startsWith("worst{"));
  expect(lines).toHaveLength(names.length);
  expect(lines[0]).toBe('worst{job="_replicator/a\\"b\\\\c\\nd"} 100');
  expect(lines[1]?.length).toBeLessThan(250);
  expect(lines[1]).toMatch(/ 99$/);
  expect(lines[2]).toBe('worst{job="\ufffd"} 98');
  expect(lines[3]).toBe('worst{job="__proto__"} 97');
});
