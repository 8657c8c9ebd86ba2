import fc from "fast-check";
import { expect, test } from "vitest";
import { formatSinceTime, sinceTime } from "./since-time.ts";

test.each([
  ["2026-01-31T23:59:59Z", Date.UTC(2026, 0, 31, 23, 59, 59)],
  ["2024-02-29T00:00:00Z", Date.UTC(2024, 1, 29)],
  ["1970-01-01T00:00:00Z", 0],
  ["0000-01-01T00:00:00Z", -62_167_219_200_000],
  ["9999-12-31T23:59:59Z", 253_402_300_799_000],
])("%s is a time", (text, timeMs) => {
  expect(sinceTime(text)).toBe(timeMs);
});

test.each([
  "2026-02-30T00:00:00Z",
  "2025-02-29T00:00:00Z",
  "2026-13-01T00:00:00Z",
  "2026-00-10T00:00:00Z",
  "2026-01-01T24:00:00Z",
  "2026-01-01T23:60:00Z",
  "2026-01-01T23:59:60Z",
  "2025-01-01Txx:yy:00Z",
  "-026-01-01T00:00:00Z",
  "2026-01-01T00:00: 1Z",
  "２０２６-01-01T00:00:00Z",
  "\n\n\n\n-01-01T00:00:00Z",
  "????-??-??T??:??:??Z",
])("%j is a time that does not exist", (text) => {
  expect(() => sinceTime(text)).toThrow(
    expect.objectContaining({ status: 400, error: "bad_request", reason: "invalid_time_format" }),
  );
});

test.each([
  "",
  "0",
  "now",
  "12-0000000000000c0000010000",
  "2026-01-31",
  "2026-01-31T23:59Z",
  "2026-01-31T23:59:59",
  "2026-01-31t23:59:59z",
  "2026-01-31 23:59:59Z",
  "2026-01-31T23:59:59.5Z",
  "2026-01-31T23:59:59+00:00",
  " 2026-01-31T23:59:59Z",
  "2026-01-31T23:59:59Z\n",
  "+002026-01-31T23:59:59Z",
  "1769903999",
])("%j is not a time", (text) => {
  expect(sinceTime(text)).toBeUndefined();
});

test("parsing a formatted time returns the time rounded down to a second", () => {
  const seconds = fc.integer({ min: -62_167_219_200, max: 253_402_300_799 });
  fc.assert(
    fc.property(seconds, fc.nat(999), (second, ms) => {
      expect(sinceTime(formatSinceTime(second * 1000 + ms))).toBe(second * 1000);
    }),
  );
});
