/** Slab copies are independent copies, and returned slabs are reused. */
import { expect, test } from "vitest";
import { SlabPool, ValueArena } from "./value-arena.ts";

const VALUE_BYTES = 1_000;
/**
 * Number of values; their total size far exceeds that of a slab and of the values copied
 * individually.
 */
const VALUE_COUNT = 400;

function copies(arena: ValueArena, first: number): Uint8Array[] {
  const value = new Uint8Array(VALUE_BYTES);
  return Array.from({ length: VALUE_COUNT }, (_, index) => {
    value.fill(first + index);
    return arena.copy(value);
  });
}

function expectFilled(values: readonly Uint8Array[], first: number): void {
  for (const [index, value] of values.entries()) {
    expect(value.length).toBe(VALUE_BYTES);
    expect(value.every((byte) => byte === ((first + index) & 0xff))).toBe(true);
  }
}

test("copies of two transactions do not overlap", () => {
  const pool = new SlabPool();
  const first = new ValueArena(pool);
  const second = new ValueArena(pool);
  const ofFirst = copies(first, 0);
  const ofSecond = copies(second, 100);
  expectFilled(ofFirst, 0);
  expectFilled(ofSecond, 100);
});

test("a released slab is reused by exactly one other transaction", () => {
  const pool = new SlabPool();
  const before = new ValueArena(pool);
  const slabs = new Set(copies(before, 0).map(({ buffer }) => buffer));
  before.release();
  before.release();
  const first = new ValueArena(pool);
  const second = new ValueArena(pool);
  const ofFirst = copies(first, 1);
  const ofSecond = copies(second, 2);
  expect(ofFirst.some(({ buffer }) => slabs.has(buffer))).toBe(true);
  expectFilled(ofFirst, 1);
  expectFilled(ofSecond, 2);
});

test("without a pool, each copy has its own memory", () => {
  const values = copies(new ValueArena(undefined), 0);
  expect(new Set(values.map(({ buffer }) => buffer)).size).toBe(VALUE_COUNT);
});

test("constant values are copied only if they outlive their transaction", () => {
  const value = new Uint8Array(VALUE_BYTES).fill(7);
  expect(new ValueArena(new SlabPool()).constant(value)).toBe(value);
  const copy = new ValueArena(undefined).constant(value);
  expect(copy).toEqual(value);
  expect(copy.buffer).not.toBe(value.buffer);
});
