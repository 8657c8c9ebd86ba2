/**
 * Compares packed random tuples with another implementation, which has been verified against
 * FoundationDB's.
 */
import fc from "fast-check";
import oracle from "fdb-tuple";
import { expect, test } from "vitest";
import { compareBytes, hexEncode } from "../base/index.ts";
import { Double, packTuple, type TupleItem, unpackTuple } from "./tuple.ts";

const scalar = fc.oneof(
  fc.constant(null),
  fc.boolean(),
  fc.integer(),
  fc.maxSafeInteger(),
  fc.bigInt({ min: -(2n ** 90n), max: 2n ** 90n }),
  fc.double({ noNaN: true }),
  fc.string({ unit: "binary" }),
  fc.string({ unit: fc.constantFrom("\0", "a", "\u00ff", "\u{10ffff}") }),
  fc.uint8Array(),
  fc.uint8Array({ max: 1 }),
);
const item = fc.letrec((tie) => ({
  item: fc.oneof({ depthSize: "small" }, scalar, fc.array(tie("item"), { maxLength: 4 })),
})).item as fc.Arbitrary<TupleItem>;
const tuple = fc.array(item, { maxLength: 5 });

/**
 * Converts an item for the other implementation, which accepts buffers for bytes and numbers for
 * doubles.
 */
function forOracle(value: TupleItem): unknown {
  if (value instanceof Uint8Array) return Buffer.from(value);
  if (Array.isArray(value)) return value.map(forOracle);
  return value;
}

test("packed bytes match another implementation", () => {
  fc.assert(
    fc.property(tuple, (items) => {
      const theirs = oracle.pack(items.map(forOracle) as never) as Buffer;
      expect(hexEncode(packTuple(items))).toBe(theirs.toString("hex"));
    }),
    { numRuns: 1_000 },
  );
});

test("unpacked tuples pack to the same bytes", () => {
  fc.assert(
    fc.property(tuple, (items) => {
      const packed = packTuple(items);
      expect(hexEncode(packTuple(unpackTuple(packed)))).toBe(hexEncode(packed));
    }),
    { numRuns: 1_000 },
  );
});

test("packed integers, doubles and strings sort correctly", () => {
  const sortsAs = <T extends TupleItem>(values: fc.Arbitrary<T>, compare: (a: T, b: T) => number) =>
    fc.assert(
      fc.property(values, values, (one, other) => {
        const packed = compareBytes(packTuple([one]), packTuple([other]));
        expect(Math.sign(packed)).toBe(Math.sign(compare(one, other)));
      }),
      { numRuns: 1_000 },
    );
  sortsAs(fc.bigInt(), (a, b) => (a < b ? -1 : a > b ? 1 : 0));
  sortsAs(fc.maxSafeInteger(), (a, b) => a - b);
  sortsAs(
    fc.double({ noNaN: true }).map((value) => new Double(value)),
    (a, b) =>
      Object.is(a.value, b.value) ? 0 : a.value - b.value || (Object.is(a.value, -0) ? -1 : 1),
  );
  sortsAs(fc.string({ unit: "binary" }), (a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  sortsAs(fc.uint8Array(), compareBytes);
});
