import { expect, test } from "vitest";
import { commitGroups } from "./commit-groups.ts";
import type { PackedRequest } from "./messages.ts";

function request(mutationCount: number, byteCount: number): PackedRequest {
  const mutations = Buffer.alloc(byteCount);
  return { readVersion: undefined, reads: [], writes: [], mutationCount, mutations };
}

const sizes = (requests: readonly PackedRequest[]) =>
  [...commitGroups(requests)].map(({ length }) => length);

test("small requests are committed in groups that hold the lock only briefly", () => {
  expect(sizes([])).toEqual([]);
  expect(sizes(Array(2_500).fill(request(3, 100)))).toEqual([1_024, 1_024, 452]);
});

test("requests with many bytes or many changes are committed a few at a time", () => {
  expect(sizes(Array(4).fill(request(100, 8_000_000)))).toEqual([2, 2]);
  expect(sizes(Array(5).fill(request(4_000, 1_000)))).toEqual([2, 2, 1]);
  expect(sizes([request(1, 10), request(50_000, 1_000), request(1, 10)])).toEqual([2, 1]);
});
