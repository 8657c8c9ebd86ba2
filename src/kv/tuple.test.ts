import { describe, expect, test } from "vitest";
import { hexEncode, utf8Encode } from "../base/index.ts";
import { Subspace } from "./subspace.ts";
import { Double, Float, packTuple, type TupleItem, Uuid, unpackTuple } from "./tuple.ts";
import { Versionstamp } from "./versionstamp.ts";

/**
 * Test vectors from FoundationDB's `design/tuple.md`, or packed by its Python binding where the
 * specification has no example.
 */
const VECTORS: readonly (readonly [TupleItem[], string])[] = [
  [[], ""],
  [[null], "00"],
  [[utf8Encode("foo\0bar")], "01666f6f00ff62617200"],
  [[new Uint8Array(0)], "0100"],
  [["F\u00d4O\u0000bar"], "0246c3944f00ff62617200"],
  [[""], "0200"],
  [["\u{1f600}"], "02f09f988000"],
  [[[utf8Encode("foo\0bar"), null, []]], "0501666f6f00ff6261720000ff050000"],
  [[[null]], "0500ff00"],
  [[[]], "0500"],
  [[0], "14"],
  [[1], "1501"],
  [[-1], "13fe"],
  [[255], "15ff"],
  [[256], "160100"],
  [[-255], "1300"],
  [[-256], "12feff"],
  [[65535], "16ffff"],
  [[65536], "17010000"],
  [[-5551212], "11ab4b93"],
  [[2 ** 32], "190100000000"],
  [[2 ** 48 - 1], "1affffffffffff"],
  [[2 ** 48], "1b01000000000000"],
  [[Number.MAX_SAFE_INTEGER], "1b1fffffffffffff"],
  [[Number.MIN_SAFE_INTEGER], "0de0000000000000"],
  [[2n ** 63n], "1c8000000000000000"],
  [[2n ** 64n - 1n], "1cffffffffffffffff"],
  [[2n ** 64n], "1d09010000000000000000"],
  [[-(2n ** 64n) + 1n], "0c0000000000000000"],
  [[-(2n ** 64n)], "0bf6feffffffffffffffff"],
  [[new Float(-42)], "203dd7ffff"],
  [[new Float(42)], "20c2280000"],
  [[1.5], "21bff8000000000000"],
  [[-1.5], "214007ffffffffffff"],
  [[-0], "217fffffffffffffff"],
  [[new Double(1)], "21bff0000000000000"],
  [[Number.POSITIVE_INFINITY], "21fff0000000000000"],
  [[Number.NEGATIVE_INFINITY], "21000fffffffffffff"],
  [[false], "26"],
  [[true], "27"],
  [[new Uuid(new Uint8Array(16).fill(0xab))], `30${"ab".repeat(16)}`],
  [[Versionstamp.fromBytes(new Uint8Array(12).fill(1))], `33${"01".repeat(12)}`],
  [["a", 1, null, [1, ["b", null]]], "0261001501000515010502620000ff0000"],
];

describe("packed tuples", () => {
  test.each(VECTORS.map(([tuple, hex]) => ({ tuple, hex })))(
    "a tuple packs to [$hex], and unpacks to the same",
    ({ tuple, hex }) => {
      const packed = packTuple(tuple);
      expect(hexEncode(packed)).toBe(hex);
      const unpacked = unpackTuple(packed);
      expect(unpacked).toEqual(tuple);
      expect(hexEncode(packTuple(unpacked))).toBe(hex);
    },
  );

  test("truncated items are refused", () => {
    for (const cut of [
      "0261",
      "01",
      "15",
      "1601",
      "0500ff",
      "21bf",
      `33${"01".repeat(11)}`,
      "40",
    ]) {
      const bytes = Uint8Array.from(cut.match(/../g) ?? [], (digits) =>
        Number.parseInt(digits, 16),
      );
      expect(() => unpackTuple(bytes), cut).toThrow();
    }
  });

  test("a string with a lone surrogate is refused, because its key would collide with another", () => {
    expect(() => packTuple(["\ud800"])).toThrow();
  });
});

describe("subspaces", () => {
  const subspace = Subspace.fromTuple(["jobs"]).subspace(1);

  test("keys are returned without the prefix", () => {
    expect(hexEncode(subspace.pack(["a"]))).toBe("026a6f62730015010261 00".replace(" ", ""));
    expect(subspace.unpack(subspace.pack(["a", 2]))).toEqual(["a", 2]);
    expect(subspace.contains(Subspace.fromTuple(["job"]).pack([]))).toBe(false);
  });

  test("the range of a tuple contains its extensions but not the tuple", () => {
    const { begin, end } = subspace.range(["a"]);
    const hex = (bytes: Uint8Array): string => hexEncode(bytes);
    expect(hex(begin) > hex(subspace.pack(["a"]))).toBe(true);
    expect(hex(begin) <= hex(subspace.pack(["a", null]))).toBe(true);
    expect(hex(end) > hex(subspace.pack(["a", new Uint8Array([255])]))).toBe(true);
    expect(hex(end) < hex(subspace.pack(["b"]))).toBe(true);
  });

  test("a versionstamped key contains the position that the commit fills", () => {
    const { bytes, offset } = subspace.packVersionstamped(["x", Versionstamp.incomplete(7)]);
    expect(hexEncode(bytes.slice(offset))).toBe(`${"ff".repeat(10)}0007`);
    expect(() => subspace.packVersionstamped(["x"])).toThrow();
    expect(() => subspace.pack([Versionstamp.incomplete()])).toThrow();
  });
});
