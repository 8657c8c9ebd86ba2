import { expect, test } from "vitest";
import { PageSize } from "./page-size.ts";

test("pages grow up to a limit while documents are small", () => {
  const size = new PageSize();
  const counts = Array.from({ length: 4 }, () => {
    size.learn(size.count, size.count * 1_000);
    return size.count;
  });
  expect(counts).toEqual([40, 100, 100, 100]);
});

test("pages shrink when documents are large, down to one document", () => {
  const size = new PageSize();
  size.learn(10, 10 * 400_000);
  expect(size.count).toBe(2);
  size.learn(2, 2 * 8_000_000);
  expect(size.count).toBe(1);
  size.learn(0, 0);
  expect(size.count).toBe(1);
});
