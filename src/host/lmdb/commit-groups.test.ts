import { expect, test } from "vitest";
import { CommitGroups } from "./commit-groups.ts";
import type { PackedRequest } from "./messages.ts";

function request(mutationCount: number, byteCount: number, number = 0): PackedRequest {
  const mutations = Buffer.alloc(byteCount);
  return { number, readVersion: undefined, reads: [], writes: [], mutationCount, mutations };
}

function* groupsOf(requests: readonly PackedRequest[]) {
  const groups = new CommitGroups();
  groups.add(requests);
  for (let group = groups.next(); group !== undefined; group = groups.next()) yield group;
}

const sizes = (requests: readonly PackedRequest[]) =>
  [...groupsOf(requests)].map(({ length }) => length);

test("short requests are committed in groups that hold the lock only briefly", () => {
  expect(sizes([])).toEqual([]);
  expect(sizes(Array(2_500).fill(request(3, 100)))).toEqual([1_024, 1_024, 452]);
});

test("requests with many bytes or many changes are committed a few at a time", () => {
  expect(sizes(Array(4).fill(request(100, 8_000_000)))).toEqual([2, 2]);
  expect(sizes(Array(5).fill(request(500, 1_000)))).toEqual([2, 2, 1]);
  expect(sizes([request(300, 10), request(50_000, 1_000), request(300, 10)])).toEqual([2, 1]);
});

test("short and long requests wait for at most one group of the other kind", () => {
  const groups = new CommitGroups();
  const long = (number: number) => request(4_000, 1_000, number);
  const next = () => groups.next()?.map(({ number }) => number);
  groups.add([long(1), long(2), long(3), request(3, 100, 4)]);
  expect(next()).toEqual([4]);
  groups.add([request(3, 100, 5), request(3, 100, 6)]);
  expect(next()).toEqual([1]);
  expect(next()).toEqual([5, 6]);
  expect([next(), next(), next()]).toEqual([[2], [3], undefined]);
});
