import fc from "fast-check";
import { expect, test } from "vitest";
import { Yielder } from "../yielder.ts";
import { parseYielding } from "./json-parse.ts";

/** The clock advances at every reading, so that the code yields at every opportunity. */
let nowMs = 0;
const clock = { nowMs: () => 0, monotonicMs: () => (nowMs += 1_000), sleep: async () => {} };

/** Arrays of up to 9,000 equal elements. */
const many = fc
  .tuple(fc.jsonValue(), fc.integer({ min: 1, max: 9_000 }))
  .map(([value, count]) => Array.from({ length: count }, () => value));
const values = fc.oneof(
  many,
  fc.dictionary(fc.oneof(fc.string(), fc.constant("__proto__")), fc.oneof(many, fc.jsonValue())),
  fc.jsonValue(),
);

test("a long text is parsed to the value that JSON.parse returns", async () => {
  await fc.assert(
    fc.asyncProperty(values, fc.constantFrom(undefined, 1, "\n"), async (made, space) => {
      const text = JSON.stringify(made, null, space);
      const value = await parseYielding(text, new Yielder(clock));
      expect(JSON.stringify(value)).toBe(JSON.stringify(JSON.parse(text)));
    }),
    { numRuns: 60 },
  );
});

test("the last of duplicate names wins", async () => {
  const list = JSON.stringify(Array.from({ length: 9_000 }, (_, at) => at));
  const text = `{"a":${list},"b":2,"a":3}`;
  expect(await parseYielding(text, new Yielder(clock))).toEqual({ a: 3, b: 2 });
});

test.each([1, 3, 5, 13, 29])("yields many times, with strings of %i characters", async (length) => {
  const list = Array.from({ length: 100_000 }, () => "x".repeat(length));
  let turnCount = 0;
  const sleep = async (): Promise<void> => {
    turnCount++;
  };
  const text = JSON.stringify({ list });
  await parseYielding(text, new Yielder({ ...clock, sleep }));
  expect(turnCount).toBeGreaterThan(text.length / 20_000);
});
