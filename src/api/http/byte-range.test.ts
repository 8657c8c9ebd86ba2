import { expect, test } from "vitest";
import { byteRange } from "./byte-range.ts";

test.each([
  [undefined, undefined],
  ["", undefined],
  ["bytes=", undefined],
  ["lines=1-2", undefined],
  ["bytes=1-2,4-5", undefined],
  ["bytes=-", undefined],
  ["bytes=0-", undefined],
  ["bytes=0-0", [0, 1]],
  ["bytes=0-9", [0, 10]],
  ["bytes=0-99", [0, 10]],
  ["bytes=1-", [1, 10]],
  ["bytes=9-", [9, 10]],
  ["bytes=9-9", [9, 10]],
  ["bytes = 2 - 4 ", [2, 5]],
  ["bytes=-1", [9, 10]],
  ["bytes=-10", [0, 10]],
  ["bytes=-99", [0, 10]],
])("for a resource of ten bytes, %s selects %j", (header, expected) => {
  const range = byteRange(header, 10);
  expect(range === undefined ? undefined : [range.start, range.end]).toEqual(expected);
});

test.each(["bytes=10-", "bytes=10-20", "bytes=5-4", "bytes=-0"])(
  "%s is not satisfiable",
  (header) => {
    expect(() => byteRange(header, 10)).toThrow(expect.objectContaining({ status: 416 }));
  },
);
