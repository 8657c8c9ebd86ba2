import { expect, test } from "vitest";
import type { Random } from "../../base/index.ts";
import { penaltySec } from "./penalty.ts";

const COUCH = { minSec: 32, maxSec: 172_800 };
const random = (ratio: number) => ({ ratio: () => ratio }) as Random;

test.each([
  [1, 64],
  [2, 128],
  [3, 256],
  [12, 131_072],
  [13, 172_800],
  [99, 172_800],
])(
  "backoff_micros: after %i errors in a row a job waits %i s at most, and three quarters of that at least",
  (errorCount, maxSec) => {
    expect(penaltySec(errorCount, COUCH, random(1))).toBe(maxSec);
    expect(penaltySec(errorCount, COUCH, random(0))).toBe(Math.ceil(maxSec * 0.75));
  },
);
