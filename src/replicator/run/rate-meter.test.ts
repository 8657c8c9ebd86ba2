import { expect, test } from "vitest";
import { RateMeter } from "./rate-meter.ts";

test("averages over the last ten seconds, and drops to zero after the last change", () => {
  const meter = new RateMeter();
  expect(meter.rates).toEqual({ docsPerSec: 0, bytesPerSec: 0 });
  for (let second = 0; second <= 60; second++) {
    meter.sample({ timeMs: second * 1000, docs: second * second, bytes: second * 1500 });
  }
  expect(meter.rates).toEqual({ docsPerSec: 110, bytesPerSec: 1500 });
  for (let second = 61; second <= 71; second++) {
    meter.sample({ timeMs: second * 1000, docs: 3600, bytes: 90_000 });
  }
  expect(meter.rates).toEqual({ docsPerSec: 0, bytesPerSec: 0 });
});

test("a run has no rate after only one sample", () => {
  const meter = new RateMeter();
  meter.sample({ timeMs: 5, docs: 5, bytes: 5 });
  expect(meter.rates).toEqual({ docsPerSec: 0, bytesPerSec: 0 });
});
