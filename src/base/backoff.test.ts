import { expect, test } from "vitest";
import { backoff } from "./backoff.ts";

const LIMITS = { min: 3, max: 100 };

test("doubles with each failure up to the maximum", () => {
  const pauses = [1, 2, 3, 4, 5, 6, 7].map((count) => backoff(LIMITS, count));
  expect(pauses).toEqual([3, 6, 12, 24, 48, 96, 100]);
});

test("stays at the maximum for any number of failures", () => {
  expect(backoff(LIMITS, 1e9)).toBe(100);
  expect(backoff({ min: 0, max: 100 }, 1e9)).toBe(0);
});

test("returns the shortest pause after zero failures", () => {
  expect(backoff(LIMITS, 0)).toBe(3);
});
