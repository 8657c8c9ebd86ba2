import { expect, test } from "vitest";
import { counted } from "./counted.ts";

test.each([
  [0, "0 databases"],
  [1, "1 database"],
  [2, "2 databases"],
  [1000, "1000 databases"],
])("formats a count with a noun: %i is %s", (count, text) => {
  expect(counted(count, "database")).toBe(text);
});

test.each([
  [0, "0 jobs fail"],
  [1, "1 job fails"],
  [2, "2 jobs fail"],
])("formats a count with a phrase: %i is %s", (count, text) => {
  expect(counted(count, "job fails", "jobs fail")).toBe(text);
});
