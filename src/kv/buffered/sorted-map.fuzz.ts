/** Compares the sorted map, its clones and the range set with naive implementations. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { RangeSet } from "./range-set.ts";
import { SortedMap } from "./sorted-map.ts";

const key = fc.integer({ min: 0, max: 2_000 }).map((number) => String(number).padStart(4, "0"));
const step = fc.oneof(
  { weight: 8, arbitrary: fc.record({ kind: fc.constant("set" as const), key, value: fc.nat() }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("delete" as const), key }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("deleteRange" as const), begin: key, end: key }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("clone" as const) }) },
);

function entriesOf(map: SortedMap<number>, reverse = false): [string, number][] {
  const entries: [string, number][] = [];
  const visit = (text: string, value: number): boolean => {
    entries.push([text, value]);
    return true;
  };
  if (reverse) map.scanReverse("", "~", visit);
  else map.scan("", "~", visit);
  return entries;
}

test("a sorted map matches a sorted list, and a clone does not see later changes", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 1_500, size: "max" }), key, key, (steps, from, to) => {
      const map = new SortedMap<number>();
      const model = new Map<string, number>();
      const clones: [SortedMap<number>, [string, number][]][] = [];
      for (const each of steps) {
        if (each.kind === "set") {
          map.set(each.key, each.value);
          model.set(each.key, each.value);
        } else if (each.kind === "delete") {
          expect(map.delete(each.key)).toBe(model.delete(each.key));
        } else if (each.kind === "deleteRange") {
          map.deleteRange(each.begin, each.end);
          for (const text of [...model.keys()]) {
            if (text >= each.begin && text < each.end) model.delete(text);
          }
        } else clones.push([map.clone(), entriesOf(map)]);
      }
      const sorted = [...model].toSorted(([one], [other]) => (one < other ? -1 : 1));
      expect(entriesOf(map)).toEqual(sorted);
      expect(entriesOf(map, true)).toEqual(sorted.toReversed());
      expect(map.size).toBe(model.size);
      expect(map.get(from)).toBe(model.get(from));
      const between = sorted.some(([text]) => text >= from && text < to);
      expect(map.hasInRange(from, to)).toBe(between);
      for (const [clone, entries] of clones) expect(entriesOf(clone)).toEqual(entries);
    }),
    { numRuns: 60 },
  );
});

test("a range set contains the added keys as disjoint ranges", () => {
  const letter = fc.constantFrom(..."abcdefgh");
  fc.assert(
    fc.property(fc.array(fc.tuple(letter, letter)), letter, letter, (ranges, from, to) => {
      const set = new RangeSet();
      for (const [begin, end] of ranges) set.add(begin, end);
      const holds = (text: string): boolean =>
        ranges.some(([begin, end]) => begin <= text && text < end);
      for (const text of "abcdefgh") expect(set.contains(text)).toBe(holds(text));
      const letters = [..."abcdefgh"].filter((text) => text >= from && text < to);
      expect(set.overlaps(from, to)).toBe(letters.some(holds));
      const pieces = [...set.ranges()];
      for (const [index, { begin, end }] of pieces.entries()) {
        expect(begin < end).toBe(true);
        if (index > 0) expect((pieces[index - 1] as { end: string }).end < begin).toBe(true);
      }
    }),
    { numRuns: 1_000 },
  );
});
