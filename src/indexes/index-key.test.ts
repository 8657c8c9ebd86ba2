import { expect, test } from "vitest";
import { compareBytes, parseJson } from "../base/index.ts";
import { IndexKeys } from "./index-key.ts";

/** A collation is not needed, because the keys contain no strings. */
const KEYS = new IndexKeys(undefined as never, 1);

const keyOf = (number: bigint): Uint8Array => KEYS.entry([parseJson(String(number))]).bytes;

test("integers that no double can represent sort in numeric order", () => {
  // A number that a double represents exactly.
  const base = 2n ** 140n;
  const rests = [0x1n, 0xffn, 0x100n, 0xfffn, 0x1000n, 0x12_3fffn, 0x12_4000n];
  const numbers = [...rests.map((rest) => base - rest).toReversed(), base];
  numbers.push(...rests.map((rest) => base + rest));
  for (const all of [numbers, numbers.map((number) => -number).toReversed()]) {
    const keys = all.map(keyOf);
    const sorted = keys.toSorted(compareBytes);
    expect(keys.map((key) => sorted.indexOf(key))).toEqual([...keys.keys()]);
    expect(new Set(keys.map(String)).size).toBe(keys.length);
  }
});
