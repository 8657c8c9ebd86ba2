import { expect, test } from "vitest";
import { parseTtl } from "./period.ts";

const DAY_MS = 86_400_000;

test.each([
  ["1000_sec", 1_000_000],
  ["30_min", 1_800_000],
  ["8_hours", 8 * 3_600_000],
  ["2_hrs", 2 * 3_600_000],
  ["+1_day", DAY_MS],
  ["3_weeks", 21 * DAY_MS],
  ["3_mon", 90 * DAY_MS],
  ["01_months", 30 * DAY_MS],
  ["2_y", 730 * DAY_MS],
  ["infinity", Number.POSITIVE_INFINITY],
])("%s is a period", (text, lengthMs) => {
  expect(parseTtl(text)).toBe(lengthMs);
});

test.each([
  "",
  "1",
  "_",
  "_day",
  "1_",
  "0_day",
  "-6_hour",
  "1.5_day",
  "1e3_sec",
  "1_m",
  "1_ms",
  "1_Day",
  "1_day ",
  " 1_day",
  "1_000_sec",
  "1__day",
  "mon",
  "Infinity",
  "99999999999_day",
  "１_day",
  "1_day\n",
  "1_s sec",
  "1_ ",
])("%j is not a period", (text) => {
  expect(parseTtl(text)).toBeUndefined();
});
