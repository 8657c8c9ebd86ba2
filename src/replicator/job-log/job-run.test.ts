import { expect, test } from "vitest";
import { utf8Encode } from "../../base/index.ts";
import { packTuple } from "../../kv/index.ts";
import { NO_STATISTICS } from "../jobs/replication-statistics.ts";
import { decodeJobRun, encodeJobRun, type JobRun } from "./job-run.ts";

const RUN: JobRun = {
  startMs: 1,
  endMs: 2,
  cause: "crashed",
  reason: "nxdomain: unknown host",
  counts: { ...NO_STATISTICS, docsWritten: 3, bytes: 4 },
  lagSec: 5,
  checkpoint: ["any", { json: "value" }],
};

test.each([
  ["a run", RUN],
  ["one without a reason", { ...RUN, cause: "stopped", reason: undefined } as const],
  ["a lost one", { ...RUN, cause: "lost", counts: undefined, lagSec: undefined } as const],
])("%s is decoded as it was encoded", (_, run) => {
  expect(decodeJobRun(encodeJobRun(run))).toEqual(run);
});

test("a run stored by an older version has no lag", () => {
  const { lagSec: _, ...older } = RUN;
  const stored = packTuple([1, utf8Encode(JSON.stringify(older))]);
  expect(decodeJobRun(stored)).toEqual({ ...older, lagSec: undefined });
});

test("a very long reason is truncated", () => {
  const { reason } = decodeJobRun(encodeJobRun({ ...RUN, reason: "x".repeat(100_000) }));
  expect(reason).toBe("x".repeat(1000));
});
