import { expect, test, vi } from "vitest";
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

test("shows a job's state, whether it is paused, and its lag", () => {
  expect(wordsOf({}).slice(1, 3)).toEqual(["running", "3 s"]);
  expect(wordsOf({ state: "pending" })[1]).toBe("waiting");
  expect(wordsOf({ state: "crashing", failing: true })[1]).toBe("failing");
  expect(wordsOf({ lag_sec: null })[2]).toBe("unknown");
  expect(wordsOf({ state: "completed", lag_sec: null })[2]).toBe("-");
  expect(wordsOf({ parked: true, lag_sec: 0 }).slice(1, 3)).toEqual(["parked", "0 s"]);
  expect(wordsOf({ parked: true, paused: true, lag_sec: null }).slice(1, 3)).toEqual([
    "paused",
    "-",
  ]);
});

test("a list of jobs fits in COLUMNS: names are shortened but keep their end, and failures are printed in full", () => {
  vi.stubEnv("COLUMNS", "80");
  const url = "https://couchdb.production.example:6984/userdb-";
  const reason = `could not reach ${"one word after another ".repeat(10)}end`;
  const jobs = ["00001", "00002"].map((end) => ({
    ...JOB,
    name: `users/userdb-${end}`,
    source: `${url}${end}`,
    target: `${url}copy-${end}`,
    last_failure: { error: "nxdomain", reason },
  }));
  const text = printJobs({ jobs, total_rows: 2, bookmark: null });
  vi.unstubAllEnvs();
  const lines = text.split("\n");
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(80);
  expect(lines[1]).toMatch(/^users\/userdb-00001 .*userdb-00001 .*copy-00001$/);
  expect(text.replaceAll(/\s+/g, " ")).toContain(`nxdomain: ${reason}`);
});
