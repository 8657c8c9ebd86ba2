import { expect, test } from "vitest";
import { StagePace } from "./stage-pace.ts";

const LIMITS = { nearCount: 4, countMax: 32 };

/** Creates a stage that has received `count` responses, each after `elapsedMs`. */
function paceAfter(count: number, elapsedMs: number, roundTripMs: number | undefined): StagePace {
  const pace = new StagePace(LIMITS);
  for (let number = 0; number < count; number++) pace.answered(elapsedMs, roundTripMs);
  return pace;
}

test("allows one batch per copier for nearby servers", () => {
  expect(paceAfter(100, 30, 1).count).toBe(4);
  expect(paceAfter(100, 9.5, 9).count).toBe(4);
  expect(paceAfter(100, 30, undefined).count).toBe(4);
});

test("for distant servers, allows enough batches to keep the copiers busy, within the limit", () => {
  expect(paceAfter(100, 400, 300).count).toBe(16);
  expect(paceAfter(100, 110, 100).count).toBe(32);
  expect(paceAfter(100, 300, 300).count).toBe(32);
});

test("doubles the number of batches at most once per round trip", () => {
  expect(paceAfter(4, 305, 300).count).toBe(8);
  expect(paceAfter(12, 305, 300).count).toBe(16);
});

test("allows fewer batches for a server that slows down, but at least one per copier", () => {
  const pace = paceAfter(100, 305, 300);
  expect(pace.count).toBe(32);
  for (let number = 0; number < 32; number++) pace.answered(600, 300);
  expect(pace.count).toBeLessThan(16);
  for (let number = 0; number < 100; number++) pace.answered(60_000, 300);
  expect(pace.count).toBe(4);
  for (let number = 0; number < 200; number++) pace.answered(310, 300);
  expect(pace.count).toBe(32);
});

test("keeps about four batches queued at a server that processes one every 10 ms", () => {
  const pace = new StagePace({ nearCount: 4, countMax: 1000 });
  const serviceMs = 10;
  for (let round = 0; round < 60; round++) {
    const count = pace.count;
    const waiting = Math.max(1, count - 300 / serviceMs);
    for (let number = 0; number < count; number++) {
      pace.answered(300 + serviceMs * waiting, 300);
    }
  }
  expect(pace.count).toBeGreaterThan(30);
  expect(pace.count).toBeLessThan(40);
});

test("spreads requests over half a round trip only for distant servers", () => {
  expect(paceAfter(100, 30, 1).spacingMs).toBe(0);
  const far = paceAfter(100, 400, 300);
  expect(far.spacingMs * far.count).toBeCloseTo(200);
});
