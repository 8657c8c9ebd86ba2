import { expect, test } from "vitest";
import type { Job } from "../../contract/index.ts";
import { whyNotArrived } from "./progress.ts";

const job = (given: Partial<Job>) =>
  ({
    paused: false,
    left_behind: 0,
    last_failure: null,
    state: "running",
    pending: 0,
    lag_sec: 0,
    ...given,
  }) as Job;

test.each<[Partial<Job>, string | undefined]>([
  [{}, undefined],
  [{ state: "completed" }, undefined],
  [{ paused: true }, "it is not copied until `tandem move start` or `tandem jobs resume`"],
  [{ left_behind: 2 }, "2 documents failed"],
  [{ pending: 1, lag_sec: 7 }, "still copying: 1 change to go, 7 s behind the source"],
  [{ pending: null, lag_sec: null }, "still copying: an unknown number of changes to go"],
  [{ state: "pending" }, "the copy is not complete yet"],
])("a job with %j is reported as %s", (given, reason) => {
  expect(whyNotArrived(job(given))).toBe(reason);
});
