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
  "after %i consecutive errors a job waits at most %i s and at least three quarters of that, as in backoff_micros",
  (errorCount, maxSec) => {
    expect(penaltySec(errorCount, COUCH, random(1))).toBe(maxSec);
    expect(penaltySec(errorCount, COUCH, random(0))).toBe(Math.ceil(maxSec * 0.75));
  },
);
