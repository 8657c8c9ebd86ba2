import { expect, test } from "vitest";
import { utf8Encode } from "../../base/index.ts";
import type { KeyValue } from "../../kv/index.ts";
import { areSameRows } from "./store-compact.ts";

function row(key: string, value = key): KeyValue {
  return { key: utf8Encode(key), value: utf8Encode(value) };
}

test("stores with equal rows are the same, regardless of page boundaries", () => {
  expect(
    areSameRows([[row("a"), row("b")], [row("c")]], [[row("a")], [], [row("b"), row("c")]]),
  ).toBe(true);
  expect(areSameRows([], [])).toBe(true);
});

test.each([
  ["a missing row", [row("a")]],
  ["an added row", [row("a"), row("b"), row("c")]],
  ["another value", [row("a"), row("b", "c")]],
  ["another key", [row("a"), row("c", "b")]],
  ["no rows", []],
])("%s is a difference", (_, rows) => {
  expect(areSameRows([[row("a"), row("b")]], [rows])).toBe(false);
});
