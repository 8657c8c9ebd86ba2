import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Failing } from "../jobs/failing.ts";
import {
  BACKLOG_STEP_MS,
  type Backlog,
  backlogAsked,
  backlogToLeave,
  backlogToStore,
  decodeBacklog,
  encodeBacklog,
  isUnread,
  lagSec,
} from "./backlog.ts";

const time = fc.nat(2 ** 40);
const backlog: fc.Arbitrary<Backlog> = fc.record({
  sinceMs: fc.option(time, { nil: undefined }),
  pending: fc.option(fc.nat(), { nil: undefined }),
  seenMs: time,
});
const at = (sinceMs: number | undefined, seenMs: number): Backlog => ({
  sinceMs,
  seenMs,
  pending: sinceMs === undefined ? 0 : 7,
});

test("a backlog is decoded as it was encoded", () => {
  fc.assert(
    fc.property(backlog, (value) => {
      expect(decodeBacklog(encodeBacklog(value))).toEqual(value);
    }),
  );
});

describe("stores the backlog of a running job", () => {
  const step = BACKLOG_STEP_MS;
  test.each([
    ["when it has caught up, once that is known", undefined, at(undefined, 9), true],
    ["when it has caught up", at(1, 5), at(undefined, 9), true],
    ["not while it keeps up", at(undefined, 5), at(undefined, 99_999), false],
    ["not for a change that has just arrived", at(undefined, 5), at(6, 5 + step), false],
    ["when it is behind", at(undefined, 5), at(6, 6 + step), true],
    ["not while the oldest change waits", at(6, 6 + step), at(6, 99_999), false],
    ["not for a small step", at(6, 50), at(5 + step, 99_999), false],
    ["when the oldest change is a much later one", at(6, 50), at(6 + step, 99_999), true],
    ["when it is older than assumed", at(6, 50), at(5, 99_999), true],
  ])("%s", (_, stored, actual, isStored) => {
    expect(backlogToStore(stored, actual)).toEqual(isStored ? actual : undefined);
  });

  test("when its run ends, if the start of the lag has changed", () => {
    expect(backlogToLeave(at(6, 50), at(7, 60))).toEqual(at(7, 60));
    expect(backlogToLeave(at(6, 50), at(6, 60))).toBeUndefined();
    expect(backlogToLeave(undefined, at(undefined, 60))).toEqual(at(undefined, 60));
  });
});

test("counts a change as pending from its first announcement until no change is pending", () => {
  const first = backlogAsked(undefined, 300, 1000);
  expect(first).toEqual({ sinceMs: 1000, pending: 300, seenMs: 1000 });
  const second = backlogAsked(first, 310, 61_000);
  expect(second.sinceMs).toBe(1000);
  expect(lagSec(second, 61_999)).toBe(60);
  const third = backlogAsked(second, 0, 121_000);
  expect(third.sinceMs).toBeUndefined();
  expect(lagSec(third, 999_999)).toBe(0);
  expect(backlogAsked(third, 1, 181_000).sinceMs).toBe(181_000);
});

test.each([
  ["without a failure", at(undefined, 5), undefined, false],
  ["caught up before the failure", at(undefined, 5), { side: "source", lastMs: 5 }, true],
  ["caught up since the failure", at(undefined, 6), { side: "source", lastMs: 5 }, false],
  ["caught up, failed without a place", at(undefined, 5), { side: undefined, lastMs: 5 }, true],
  ["caught up, failed at the target", at(undefined, 5), { side: "target", lastMs: 5 }, false],
  ["behind before the failure", at(3, 5), { side: "source", lastMs: 5 }, false],
  ["never measured", undefined, { side: "source", lastMs: 5 }, true],
])("determines whether the source has unread changes: %s", (_, stored, failing, expected) => {
  expect(isUnread(stored, failing as Failing | undefined)).toBe(expected);
});
