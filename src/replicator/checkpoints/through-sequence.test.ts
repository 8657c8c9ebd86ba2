import fc from "fast-check";
import { expect, test } from "vitest";
import { ThroughSequence } from "./through-sequence.ts";

test("a batch that finishes out of order advances the through sequence only once all earlier batches have finished", () => {
  const sequence = new ThroughSequence(0);
  const [first, second, third] = ["a", "b", "c"].map((text) => sequence.start(text));
  sequence.finish(third as number);
  expect(sequence.through).toBe(0);
  sequence.finish(first as number);
  expect(sequence.through).toBe("a");
  sequence.finish(second as number);
  expect(sequence.through).toBe("c");
  expect(sequence.highest).toBe("c");
});

test("the through sequence is that of the last batch before the first unfinished one", () => {
  fc.assert(
    fc.property(fc.shuffledSubarray([...Array(12).keys()], { minLength: 12 }), (order) => {
      const sequence = new ThroughSequence(-1);
      const numbers = [...Array(12).keys()].map((place) => sequence.start(place));
      const unfinished = new Set(numbers.keys());
      for (const place of order) {
        sequence.finish(numbers[place] as number);
        unfinished.delete(place);
        const lowest = unfinished.size === 0 ? 12 : Math.min(...unfinished);
        expect(sequence.through).toBe(lowest - 1);
      }
    }),
  );
});
