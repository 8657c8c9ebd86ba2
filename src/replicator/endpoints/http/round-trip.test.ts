import { expect, test } from "vitest";
import { RoundTrip } from "./round-trip.ts";

const MINUTE_MS = 60_000;

function opened() {
  let nowMs = 1_000_000;
  const roundTrip = new RoundTrip({ monotonicMs: () => nowMs });
  const after = (minutes: number): void => {
    nowMs += minutes * MINUTE_MS;
  };
  return { roundTrip, after };
}

test("the estimate of a round trip is the shortest time so far", () => {
  const { roundTrip } = opened();
  expect(roundTrip.leastMs).toBeUndefined();
  for (const durationMs of [310, 302, 900]) roundTrip.add(durationMs);
  expect(roundTrip.leastMs).toBe(302);
});

test("the estimate adopts longer times after ten minutes, and does not change without responses", () => {
  const { roundTrip, after } = opened();
  roundTrip.add(100);
  after(6);
  roundTrip.add(300);
  expect(roundTrip.leastMs).toBe(100);
  after(6);
  roundTrip.add(320);
  expect(roundTrip.leastMs).toBe(300);
  after(600);
  expect(roundTrip.leastMs).toBe(300);
});
