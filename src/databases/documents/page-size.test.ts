import { expect, test } from "vitest";
import { PageSize } from "./page-size.ts";

let nowMs = 0;
const open = () => new PageSize({ monotonicMs: () => nowMs } as never);

/** Reads a page. Returns the size of the next one. */
function read(size: PageSize, { length, tookMs = 0 }: { length: number; tookMs?: number }): number {
  const { count, learn } = size.begin();
  nowMs += tookMs;
  learn(count, count * length);
  return size.begin().count;
}

test("pages grow up to a limit while documents are small", () => {
  const size = open();
  const counts = Array.from({ length: 4 }, () => read(size, { length: 1_000 }));
  expect(counts).toEqual([40, 100, 100, 100]);
});

test("pages shrink when documents are large, down to one document", () => {
  const size = open();
  expect(read(size, { length: 400_000 })).toBe(2);
  expect(read(size, { length: 8_000_000 })).toBe(1);
  size.begin().learn(0, 0);
  expect(size.begin().count).toBe(1);
});

test("pages shrink when documents take long to read, and grow again", () => {
  const size = open();
  expect(read(size, { length: 10, tookMs: 2_000 })).toBe(2);
  expect(read(size, { length: 10, tookMs: 2_000 })).toBe(1);
  expect(read(size, { length: 10, tookMs: 1 })).toBe(4);
});
