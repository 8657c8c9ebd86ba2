import { describe, expect, test } from "vitest";
import { REPLICATOR_CONFIG_DEFAULT } from "../replicator-config.ts";
import { failingAfter, NO_PLACE } from "./failing.ts";
import {
  begunAnew,
  type JobEvent,
  NO_RATES,
  newJobData,
  observed,
  restarted,
  started,
  withEvents,
} from "./job-data.ts";

const event = (type: JobEvent["type"], timeMs: number): JobEvent => ({ type, timeMs });

test("a history starts with the latest event, and drops the oldest events", () => {
  const added = [event("added", 1)];
  const started = withEvents(added, [event("started", 2)], 3);
  expect(started.map(({ type }) => type)).toEqual(["started", "added"]);
  const stopped = withEvents(started, [event("stopped", 3), event("pending", 3)], 3);
  expect(stopped.map(({ type }) => type)).toEqual(["pending", "stopped", "started", "added"]);
  const again = withEvents(stopped, [event("started", 4)], 3);
  expect(again.map(({ type }) => type)).toEqual(["started", "pending", "stopped", "started"]);
});

test("the default history covers ten crashes", () => {
  let history: readonly JobEvent[] = [];
  const { historyLengthMax } = REPLICATOR_CONFIG_DEFAULT;
  for (let run = 1; run <= 12; run++) {
    history = withEvents(history, [event("started", run)], historyLengthMax);
    history = withEvents(history, [event("crashed", run), event("pending", run)], historyLengthMax);
  }
  expect(history.filter(({ type }) => type === "crashed")).toHaveLength(10);
});

describe("a failing job", () => {
  const refusal = { error: "econnrefused", reason: "connection refused" };
  const failing = failingAfter(undefined, refusal, { ...NO_PLACE, class: "unreachable" }, 5);
  const origin = { document: undefined, userName: null, replicationId: "id" };
  const job = { ...newJobData({ replication: undefined, refusal, ...origin }, 0), failing };
  const running = started(job, { id: "id" }, { nowMs: 100, historyLengthMax: 20 });
  const figures = {
    statistics: running.statistics,
    checkpointedSequence: 0,
    throughSequence: 0,
    sourceSequence: 0,
    rates: NO_RATES,
    waitsFor: undefined,
  };
  const failingAt = (nowMs: number, hasCheckpoint: boolean, hasBegun = true) =>
    observed(running, { ...figures, hasBegun, hasCheckpoint }, { nowMs, healthyMs: 50 }).failing;

  test("remains failing while it runs, until it has a checkpoint or counts as healthy", () => {
    expect(running.failing).toEqual(failing);
    expect(failingAt(150, false)).toEqual(failing);
    expect(failingAt(150, true)).toBeUndefined();
    expect(failingAt(151, false)).toBeUndefined();
    expect(failingAt(151, false, false)).toEqual(failing);
  });

  test("remains failing when it is retried, but not when it is reset", () => {
    expect(restarted(job).failing).toEqual(failing);
    expect(begunAnew(job).failing).toBeUndefined();
  });
});
