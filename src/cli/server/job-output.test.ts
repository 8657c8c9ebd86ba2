import { expect, test } from "vitest";
import { printJobs } from "./job-output.ts";

const JOB = {
  name: "_replicator/doc",
  state: "running",
  paused: false,
  failing: false,
  parked: false,
  lag_sec: 3,
  source: "http://far/a",
  target: "b",
  last_failure: null,
};

const wordsOf = (job: object): readonly string[] => {
  const text = printJobs({ jobs: [{ ...JOB, ...job }], total_rows: 1, bookmark: null });
  return text.split("\n")[1]?.split(/\s{2,}/) ?? [];
};

test("a job is shown by its name", () => {
  expect(wordsOf({})[0]).toBe("_replicator/doc");
});

test("a job's state, and whether it is paused, is shown with its lag", () => {
  expect(wordsOf({}).slice(1, 3)).toEqual(["running", "3 s"]);
  expect(wordsOf({ state: "pending" })[1]).toBe("waiting");
  expect(wordsOf({ state: "crashing", failing: true })[1]).toBe("failing");
  expect(wordsOf({ parked: true, lag_sec: 0 }).slice(1, 3)).toEqual(["parked", "0 s"]);
  expect(wordsOf({ parked: true, paused: true, lag_sec: null }).slice(1, 3)).toEqual([
    "paused",
    "-",
  ]);
});
