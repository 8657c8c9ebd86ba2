/** Tests that operations on one key are merged only if the merge leaves the result unchanged. */
import { expect, test } from "vitest";
import { keyText } from "../key-bytes.ts";
import { type AtomicOperation, littleEndian64 } from "../mutation.ts";
import { valueAfter, WriteBuffer } from "./write-buffer.ts";

const KEY = new Uint8Array([1]);

function operated(...operations: [AtomicOperation, Uint8Array][]) {
  const buffer = new WriteBuffer();
  for (const [kind, operand] of operations) buffer.operate(kind, KEY, operand);
  const write = buffer.find(keyText(KEY));
  if (write === undefined || write === "cleared") throw new Error("The key was written");
  return {
    count: buffer.mutations().length,
    after: (value: Uint8Array) => valueAfter(write, value),
  };
}

test("a thousand additions to one counter are merged into one", () => {
  const ones = Array.from({ length: 1000 }, () => ["add", littleEndian64(1n)] as const);
  const { count, after } = operated(
    ...ones.map(([kind, one]): [AtomicOperation, Uint8Array] => [kind, one]),
  );
  expect(count).toBe(1);
  expect(after(littleEndian64(-7n))).toEqual(littleEndian64(993n));
});

test("successive max or byteMin operations are merged into one", () => {
  const bytes = (...values: number[]) => new Uint8Array(values);
  expect(operated(["max", bytes(3)], ["max", bytes(9)], ["max", bytes(5)]).after(bytes(7))).toEqual(
    bytes(9),
  );
  expect(operated(["byteMin", bytes(3)], ["byteMin", bytes(2)]).after(bytes(7))).toEqual(bytes(2));
});

test("operations of different kinds or lengths are not merged", () => {
  const mixed = operated(
    ["add", littleEndian64(5n)],
    ["max", littleEndian64(3n)],
    ["add", littleEndian64(1n)],
  );
  expect(mixed.count).toBe(3);
  expect(mixed.after(littleEndian64(-4n))).toEqual(littleEndian64(4n));
  // An addition truncates the stored value to the length of the operand.
  const cut = operated(["add", new Uint8Array([1, 1])], ["add", new Uint8Array([255])]);
  expect(cut.count).toBe(2);
  expect(cut.after(new Uint8Array([1, 0]))).toEqual(new Uint8Array([1]));
});
