import { expect, test } from "vitest";
import { VALUE_BYTES_MAX } from "../../kv/index.ts";
import type { ControlEvent, JobControl } from "./job-control.ts";
import { decodeJobControl, encodeJobControl } from "./job-control-record.ts";

const control = (events: readonly ControlEvent[]): JobControl => ({
  isPaused: true,
  restartAt: { sequence: "x".repeat(32_766), decision: 7 },
  decision: 30,
  events,
});

const paused = (timeMs: number, userName: string): ControlEvent => {
  return { action: "pause", userName, timeMs };
};

test("the oldest decisions are omitted if all of them do not fit into a value, counted in bytes", () => {
  const events = [4, 3, 2, 1].map((timeMs) => paused(timeMs, "中".repeat(8_000)));
  const value = encodeJobControl(control(events));
  expect(value.length).toBeLessThanOrEqual(VALUE_BYTES_MAX);
  expect(decodeJobControl(value)).toEqual(control(events.slice(0, 2)));
});

test("the restart is kept even if no decision fits", () => {
  const value = encodeJobControl(control([paused(1, "x".repeat(100_000))]));
  expect(decodeJobControl(value)).toEqual(control([]));
});
