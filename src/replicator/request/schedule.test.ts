/** Tests the due times of scheduled jobs: syntax, time zones, windows, and missed runs. */
import { describe, expect, test } from "vitest";
import { firstRunSec, intoWindow, nextRunSec, parseSchedule, windowEndSec } from "./schedule.ts";

const at = (text: string): number => Date.parse(text) / 1000;
const shown = (sec: number | undefined): string | undefined =>
  sec === undefined ? undefined : new Date(sec * 1000).toISOString().slice(0, 19);

describe("a cron expression", () => {
  test.each([
    ["0 3 * * *", "2026-01-01T02:00:00Z", "2026-01-01T03:00:00"],
    ["0 3 * * *", "2026-01-01T03:00:00Z", "2026-01-02T03:00:00"],
    ["0 3 * * * Europe/Berlin", "2026-01-01T02:00:00Z", "2026-01-02T02:00:00"],
    ["0 3 * * * Europe/Berlin", "2026-07-01T00:00:00Z", "2026-07-01T01:00:00"],
    ["*/15 * * * *", "2026-01-01T00:01:00Z", "2026-01-01T00:15:00"],
    ["0 9 * * 1-5", "2026-01-03T00:00:00Z", "2026-01-05T09:00:00"],
    ["0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00"],
    // At the start of daylight saving time, times between two and three are moved to three.
    ["30 2 * * * Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00"],
  ])("%s, evaluated at %s, is next due at %s", (text, now, expected) => {
    expect(shown(firstRunSec(parseSchedule(text), at(now)))).toBe(expected);
    expect(shown(nextRunSec(parseSchedule(text), 0, at(now)))).toBe(expected);
  });

  test("is due only once in the hour that is repeated at the end of daylight saving time", () => {
    const schedule = parseSchedule("30 2 * * * Europe/Berlin");
    const first = firstRunSec(schedule, at("2026-10-24T12:00:00Z"));
    const times = [first, nextRunSec(schedule, first, first)].map(shown);
    expect(times).toEqual(["2026-10-25T00:30:00", "2026-10-26T01:30:00"]);
  });
});

test("`every` counts from the start of the last run, and one run makes up for all missed runs", () => {
  const schedule = parseSchedule("every 15m");
  expect(firstRunSec(schedule, 100)).toBe(100);
  expect(nextRunSec(schedule, 100, 130)).toBe(1000);
  expect(nextRunSec(schedule, 100, 50_000)).toBe(50_000);
  expect(nextRunSec(schedule, 50_000, 50_010)).toBe(50_900);
});

describe("a window", () => {
  const night = parseSchedule("between 22:00 and 06:00 Europe/Berlin");

  test.each([
    ["2026-01-01T20:59:59Z", "2026-01-01T21:00:00", undefined],
    ["2026-01-01T21:00:00Z", "2026-01-01T21:00:00", "2026-01-02T05:00:00"],
    ["2026-01-02T04:59:59Z", "2026-01-02T04:59:59", "2026-01-02T05:00:00"],
    ["2026-01-02T05:00:00Z", "2026-01-02T21:00:00", undefined],
    // At the start of daylight saving time, the window is an hour shorter.
    ["2026-03-28T21:30:00Z", "2026-03-28T21:30:00", "2026-03-29T04:00:00"],
  ])(
    "at %s, the next time in the window is %s, and a run started now ends at %s",
    (now, opens, ends) => {
      expect(shown(intoWindow(night, at(now)))).toBe(opens);
      expect(shown(windowEndSec(night, at(now)))).toBe(ends);
    },
  );

  test("moves runs of `every` that are due outside the window to the next start of the window", () => {
    const schedule = parseSchedule("every 1h between 22:00 and 06:00");
    const late = nextRunSec(schedule, at("2026-01-01T05:30:00Z"), at("2026-01-01T05:31:00Z"));
    expect(shown(late)).toBe("2026-01-01T22:00:00");
    const early = nextRunSec(schedule, at("2026-01-01T02:30:00Z"), at("2026-01-01T02:31:00Z"));
    expect(shown(early)).toBe("2026-01-01T03:30:00");
  });
});

test.each([
  [5, "5"],
  ["every 0m", '"every 0m"'],
  ["every 15 minutes", '"every 15 minutes"'],
  ["every 400d", '"every 400d": the interval must be at most 366d'],
  ["after 0 changes", '"after 0 changes"'],
  ["between 25:00 and 06:00", '"between 25:00 and 06:00"'],
  ["between 06:00 and 06:00", '"between 06:00 and 06:00": the window has no length'],
  [
    "between 22:00 and 06:00 Mars/Base",
    '"between 22:00 and 06:00 Mars/Base": "Mars/Base" is not a time zone',
  ],
  ["0 3 * * * Mars/Base", '"0 3 * * * Mars/Base": "Mars/Base" is not a time zone'],
  ["0 0 30 2 *", '"0 0 30 2 *": that day never occurs'],
  ["* * * *", '"* * * *"'],
  ["0 0 0 3 * * *", '"0 0 0 3 * * *"'],
])("%j is refused with examples of valid schedules", (text, end) => {
  const examples =
    '"every 15m", "0 3 * * * Europe/Berlin", "after 100 changes" or "between 22:00 and 06:00 Europe/Berlin"';
  expect(() => parseSchedule(text)).toThrow(
    expect.objectContaining({ reason: `\`schedule\` must be like ${examples}, but is ${end}` }),
  );
});

test("a cron field that is out of range is refused", () => {
  expect(() => parseSchedule("61 3 * * *")).toThrow(
    expect.objectContaining({ reason: expect.stringContaining('but is "61 3 * * *": ') }),
  );
});
