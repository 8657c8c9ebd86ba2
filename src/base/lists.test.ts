import { expect, test } from "vitest";
import { append, chunksOf, largest, replaceAll, smallest } from "./lists.ts";

/** More items than a call stack can hold as arguments. */
const MANY = Array.from({ length: 1_000_000 }, (_, index) => index);

test("lists of any length are appended, replaced and compared", () => {
  const list = [-1];
  append(list, MANY);
  expect([list.length, list[0], list.at(-1)]).toEqual([1_000_001, -1, 999_999]);
  replaceAll(list, list.slice(1));
  expect([list.length, list[0]]).toEqual([1_000_000, 0]);
  expect([largest(MANY), smallest(MANY)]).toEqual([999_999, 0]);
});

test("the largest and smallest of an empty list are the initial value", () => {
  expect([largest([], 5), smallest([], 5), largest([7], 5), smallest([3], 5)]).toEqual([
    5, 5, 7, 3,
  ]);
});

test("a list is split into chunks, of which only the last can be shorter", () => {
  expect(chunksOf([1, 2, 3, 4, 5], 2)).toEqual([[1, 2], [3, 4], [5]]);
  expect(chunksOf([1, 2], 2)).toEqual([[1, 2]]);
  expect(chunksOf([], 2)).toEqual([]);
});
