/**
 * Compares the resolver with a naive implementation, which compares every write after the read
 * version with the read set.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { TextInterval } from "../mutation.ts";
import { Resolver, type Writes } from "./resolver.ts";

const letter = fc.constantFrom(..."abcdefghij");
const interval: fc.Arbitrary<TextInterval> = fc.oneof(
  fc.record({ begin: letter, end: fc.constant(undefined) }),
  fc.tuple(letter, letter).map(([one, other]) => {
    const [begin, end] = one < other ? [one, other] : [other, one];
    return { begin, end };
  }),
);
const intervals = fc.array(interval, { maxLength: 4 });
/**
 * Unrelated keys that make a transaction large, because the resolver sorts the keys of a large
 * transaction only after many searches.
 */
const others = Array.from({ length: 70 }, (_, n): TextInterval => {
  return { begin: `other ${n * 7919}`, end: undefined };
});
const commit = fc
  .tuple(intervals, fc.boolean())
  .map(([writes, isLarge]) => (isLarge ? [...others, ...writes] : writes));

function overlap(one: TextInterval, other: TextInterval): boolean {
  return [..."abcdefghij"].some((key) => contains(one, key) && contains(other, key));
}

function contains({ begin, end }: TextInterval, key: string): boolean {
  return end === undefined ? key === begin : begin <= key && key < end;
}

function written(writes: readonly TextInterval[]): Writes {
  return { count: writes.length, read: () => writes };
}

test("a transaction conflicts if and only if a key that it read was written after its read version", () => {
  fc.assert(
    fc.property(
      fc.array(commit, { maxLength: 24 }),
      intervals,
      fc.nat(24),
      fc.nat(12),
      fc.constantFrom(0, 100, 1_000),
      fc.integer({ min: 1, max: 12 }),
      (commits, reads, readVersion, windowMs, searchCount, generationMs) => {
        const resolver = new Resolver(0, generationMs);
        // One millisecond per version, so that times and versions are the same numbers.
        for (const [index, writes] of commits.entries()) {
          const version = index + 1;
          resolver.forgetBefore(version - windowMs);
          resolver.record(version, version, written(writes));
        }
        const unwritten = [{ begin: "z", end: undefined }];
        for (let count = 0; count < searchCount; count++) resolver.judge(readVersion, unwritten);
        const verdict = resolver.judge(readVersion, reads);
        if (verdict === "too-old") {
          expect(readVersion).toBeLessThan(commits.length - windowMs);
          return;
        }
        const isWritten = commits
          .slice(readVersion)
          .some((writes) => writes.some((write) => reads.some((read) => overlap(read, write))));
        expect(verdict).toBe(isWritten ? "conflict" : "free");
      },
    ),
    { numRuns: 4_000 },
  );
});

test("old commits are dropped, and a transaction with an earlier read version is too old", () => {
  const resolver = new Resolver(0, 3);
  const key = { begin: "a", end: undefined };
  for (let version = 1; version <= 100; version++) {
    resolver.forgetBefore(version - 10);
    resolver.record(version, version, written([key]));
  }
  expect(resolver.judge(100 - 10, [key])).toBe("conflict");
  // At the last commit, the generation of the commits 88 to 90 still had to be kept.
  expect(resolver.judge(87, [key])).toBe("conflict");
  expect(resolver.judge(86, [key])).toBe("too-old");
  expect(resolver.judge(0, [])).toBe("free");
});
