import { expect, test } from "vitest";
import type { ReplicationJobData } from "../jobs/job-data.ts";
import { type Awaited, isReached, reasonsOf } from "./awaited.ts";

const CAUGHT_UP = { sinceMs: undefined, pending: 0, seenMs: 5 };
const BEHIND = { sinceMs: 1, pending: 3, seenMs: 5 };
const FAILING = { side: "source", lastMs: 9 };

type Facts = Partial<Record<keyof ReplicationJobData | "replication", unknown>>;

test.each<[string, Facts, typeof CAUGHT_UP | typeof BEHIND | undefined, boolean]>([
  ["a completed job", { state: "completed" }, undefined, true],
  ["a parked job", { state: "parked" }, undefined, true],
  ["a failed job", { state: "failed" }, CAUGHT_UP, false],
  ["a one-shot job that has not completed", { replication: {} }, CAUGHT_UP, false],
  ["a continuous job without pending changes", {}, CAUGHT_UP, true],
  ["a scheduled job after a run", { replication: { schedule: "every 1h" } }, CAUGHT_UP, true],
  ["a continuous job with pending changes", {}, BEHIND, false],
  ["a continuous job whose lag is unknown", {}, undefined, false],
  ["a continuous job that has never run", { lastStartMs: 0 }, CAUGHT_UP, false],
  ["a job whose source failed since", { failing: FAILING }, CAUGHT_UP, false],
  ["a job whose target failed since", { failing: { ...FAILING, side: "target" } }, CAUGHT_UP, true],
])(
  "%s, with %j and the backlog %j, has completed or caught up: %s",
  (_, facts, backlog, expected) => {
    const data = { state: "pending", replication: { continuous: true }, lastStartMs: 3, ...facts };
    expect(isReached(data as never, backlog)).toBe(expected);
  },
);

const on = (name: string, state: Awaited["state"] = "waiting"): Awaited => ({
  name,
  state,
  jobId: state === "missing" ? undefined : name,
});

test.each<[string, Record<string, Awaited[]>, string, string | undefined, RegExp]>([
  [
    "one job",
    { a: [on("b")] },
    "a",
    undefined,
    /^The job starts once b has completed or caught up$/,
  ],
  [
    "two jobs",
    { a: [on("b"), on("c")] },
    "a",
    undefined,
    /^The job starts once b, c have completed/,
  ],
  [
    "a missing job",
    { a: [on("b"), on("c", "missing")] },
    "a",
    "no_job",
    /waits for c, but you have no/,
  ],
  ["a failed job", { a: [on("b", "failed")] }, "a", "failed_job", /waits for b, which has failed/],
  ["a cycle of two", { a: [on("b")], b: [on("a")] }, "a", "cycle", /waits for b, which in turn/],
  ["itself", { a: [on("a")] }, "a", "cycle", /waits for a, which in turn waits for this job/],
  [
    "a long cycle",
    { a: [on("b")], b: [on("c")], c: [on("a")] },
    "a",
    "cycle",
    /waits for b, which/,
  ],
  ["a job in a cycle", { t: [on("a")], a: [on("b")], b: [on("a")] }, "t", undefined, /once a has/],
  [
    "a cycle before other problems",
    { a: [on("x", "missing"), on("b")], b: [on("a")] },
    "a",
    "cycle",
    /waits for b,/,
  ],
])("explains why a job waits for %s", (_, graph, id, error, reason) => {
  const found = reasonsOf(new Map(Object.entries(graph))).get(id);
  expect(found).toEqual({ error, reason: expect.stringMatching(reason) });
});
