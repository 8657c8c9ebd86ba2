import { expect, test } from "vitest";
import { printJobs } from "./job-output.ts";

const JOB = {
  id: "5b1c|doc",
  database: "_replicator",
  doc_id: "doc",
  state: "running",
  paused: false,
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

test("the job of a document is named by the document, any other job by its id", () => {
  expect(wordsOf({})[0]).toBe("_replicator/doc");
  expect(wordsOf({ id: "abc", database: null, doc_id: null })[0]).toBe("abc");
});

test("a job's state, and whether it is paused, is shown with its lag", () => {
  expect(wordsOf({}).slice(1, 3)).toEqual(["running", "3 s"]);
  expect(wordsOf({ parked: true, lag_sec: 0 }).slice(1, 3)).toEqual(["parked", "0 s"]);
  expect(wordsOf({ parked: true, paused: true, lag_sec: null }).slice(1, 3)).toEqual([
    "paused",
    "-",
  ]);
});
