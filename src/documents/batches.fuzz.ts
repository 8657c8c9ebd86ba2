import fc from "fast-check";
import { expect, test } from "vitest";
import { batchesOf } from "./batches.ts";

test("batches contain all items in order, and are as large as the sizes allow", () => {
  const lengths = fc.array(fc.integer({ min: 0, max: 30 }), { maxLength: 60 });
  const sizes = fc.record({
    countMax: fc.integer({ min: 1, max: 10 }),
    lengthMax: fc.integer({ min: 1, max: 60 }),
  });
  fc.assert(
    fc.property(lengths, sizes, (items, { countMax, lengthMax }) => {
      const batches = [...batchesOf(items, { countMax, lengthMax, lengthOf: (item) => item })];
      expect(batches.flat()).toEqual(items);
      for (const [index, batch] of batches.entries()) {
        const length = batch.reduce((sum, item) => sum + item, 0);
        expect(batch.length).toBeGreaterThan(0);
        expect(batch.length).toBeLessThanOrEqual(countMax);
        if (batch.length > 1) expect(length).toBeLessThanOrEqual(lengthMax);
        const next = batches[index + 1]?.[0];
        if (next === undefined) continue;
        expect(batch.length === countMax || length + next > lengthMax).toBe(true);
      }
    }),
  );
});

test("at most one item is read beyond the requested batch", () => {
  let takenCount = 0;
  const items = (function* () {
    for (;;) yield ++takenCount;
  })();
  const batches = batchesOf(items, { countMax: 3, lengthMax: 100, lengthOf: () => 1 });
  expect(batches.next().value).toEqual([1, 2, 3]);
  // The fourth item was read to find that the batch is full.
  expect(takenCount).toBe(4);
});
