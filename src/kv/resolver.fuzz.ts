/** The resolver against the plainest judgement: is any write after the read version inside of what was read? */
import fc from "fast-check";
import { expect, test } from "vitest";
import { Resolver, type TextInterval } from "./resolver.ts";

const letter = fc.constantFrom(..."abcdefghij");
const interval: fc.Arbitrary<TextInterval> = fc.oneof(
  fc.record({ begin: letter, end: fc.constant(undefined) }),
  fc.tuple(letter, letter).map(([one, other]) => {
    const [begin, end] = one < other ? [one, other] : [other, one];
    return { begin, end };
  }),
);
const intervals = fc.array(interval, { maxLength: 4 });

function overlap(one: TextInterval, other: TextInterval): boolean {
  return [..."abcdefghij"].some((key) => contains(one, key) && contains(other, key));
}

function contains({ begin, end }: TextInterval, key: string): boolean {
  return end === undefined ? key === begin : begin <= key && key < end;
}

test("a transaction conflicts exactly if something it read was written since", () => {
  fc.assert(
    fc.property(
      fc.array(intervals, { maxLength: 12 }),
      intervals,
      fc.nat(12),
      fc.nat(12),
      (commits, reads, readVersion, forgottenCount) => {
        const resolver = new Resolver(0);
        // One millisecond for each version, so that times and versions are the same numbers.
        for (const [index, writes] of commits.entries())
          resolver.record(index + 1, index + 1, writes);
        resolver.forgetBefore(forgottenCount);
        const knownAfter = Math.min(Math.max(0, forgottenCount - 1), commits.length);
        const isWritten = commits
          .slice(readVersion)
          .some((writes) => writes.some((write) => reads.some((read) => overlap(read, write))));
        const expected = isWritten ? "conflict" : "free";
        const tooOld = reads.length > 0 && readVersion < knownAfter;
        expect(resolver.judge(readVersion, reads)).toBe(tooOld ? "too-old" : expected);
      },
    ),
    { numRuns: 2_000 },
  );
});
