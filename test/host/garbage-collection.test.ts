import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { growthPercent, HEAP_FLAG } from "../../src/host/system/garbage-collection.ts";

const MEBIBYTE = 1024 * 1024;

test("V8 knows the flag for the growth of the heap", () => {
  const options = execFileSync(process.execPath, ["--v8-options"], { encoding: "utf8" });
  expect(options).toMatch(new RegExp(`^ +${HEAP_FLAG} `, "m"));
});

test("the heap may grow by 32 MiB or by a percentage before a collection, whichever is larger", () => {
  expect(growthPercent(8 * MEBIBYTE)).toBe(400);
  expect(growthPercent(16 * MEBIBYTE)).toBe(200);
  expect(growthPercent(32 * MEBIBYTE)).toBe(100);
  expect(growthPercent(200 * MEBIBYTE)).toBe(100);
});
