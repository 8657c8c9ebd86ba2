import { expect, test } from "vitest";
import { decodeJobRun, encodeJobRun, type JobRun } from "./job-run.ts";
import { NO_STATISTICS } from "./replication-statistics.ts";

const RUN: JobRun = {
  startMs: 1,
  endMs: 2,
  cause: "crashed",
  reason: "nxdomain: nobody",
  counts: { ...NO_STATISTICS, docsWritten: 3, bytes: 4 },
  checkpoint: ["any", { json: "value" }],
};

test.each([
  ["a run", RUN],
  ["one without a reason", { ...RUN, cause: "stopped", reason: undefined } as const],
  ["a lost one", { ...RUN, cause: "lost", counts: undefined } as const],
])("%s is read as it was stored", (_, run) => {
  expect(decodeJobRun(encodeJobRun(run))).toEqual(run);
});

test("of a reason without end the beginning is stored", () => {
  const { reason } = decodeJobRun(encodeJobRun({ ...RUN, reason: "x".repeat(100_000) }));
  expect(reason).toBe("x".repeat(1000));
});
