import { expect, test } from "vitest";
import { keyEncoder, reading, valueEncoder } from "./encoding.ts";

const stored = new Uint8Array(200).fill(7);

test("reading only lengths allocates each key separately, and copies no value", () => {
  const kept = keyEncoder.readKey(stored, 0, 101);
  const [key, value] = reading("lengths", () => [
    keyEncoder.readKey(stored, 0, 101),
    valueEncoder.decode(stored),
  ]);
  expect(key).toEqual(kept);
  expect(key?.buffer.byteLength).toBe(100);
  expect(kept.buffer.byteLength).toBeGreaterThan(100);
  expect(value).toHaveLength(200);
  expect(value).not.toEqual(stored);
  expect(valueEncoder.decode(stored)).toEqual(stored);
});

test("values are read completely again after a failed read of lengths", () => {
  const fail = () => {
    throw new Error("failed");
  };
  expect(() => reading("lengths", fail)).toThrow("failed");
  expect(valueEncoder.decode(stored)).toEqual(stored);
});
