import { describe, expect, test } from "vitest";
import { keyRow, keyShapes, keyTable } from "./key-table.ts";
import { Subspace } from "./subspace.ts";
import { Versionstamp } from "./versionstamp.ts";

const ROWS = {
  job: keyRow<{ type: string; id: string }>(2, ["type", "id"], "JobFacts", "lock"),
  event: keyRow<{ type: string; versionstamp: Versionstamp }>(
    6,
    ["type", "versionstamp"],
    "(id)",
    "",
  ),
  count: keyRow<{ state: number; group: string | null }>(7, ["state", "group"], "counter", ""),
  changed: keyRow<Record<never, never>>(8, [], "counter", "watched"),
};
const SUBSPACE = Subspace.fromTuple(["tandem", 1]);
const keys = keyTable(ROWS)(SUBSPACE);

describe("a table of keys", () => {
  test("packs the number of the row, then the elements in the order of the row", () => {
    expect(keys.job.key({ id: "b", type: "a" })).toEqual(SUBSPACE.pack([2, "a", "b"]));
    expect(keys.count.key({ state: 0, group: null })).toEqual(SUBSPACE.pack([7, 0, null]));
    expect(keys.changed.key({})).toEqual(SUBSPACE.pack([8]));
    const extra = { type: "a", id: "b", other: "c" };
    expect(keys.job.key(extra)).toEqual(SUBSPACE.pack([2, "a", "b"]));
  });

  test("packs a versionstamp that the commit completes", () => {
    const incomplete = Versionstamp.incomplete(3);
    expect(keys.event.newKey({ type: "a" }, 3)).toEqual(
      SUBSPACE.packVersionstamped([6, "a", incomplete]),
    );
  });

  test("returns the range of keys up to or before an element", () => {
    const { begin } = SUBSPACE.range([2, "a"]);
    const { end } = SUBSPACE.range([2, "a", "m"]);
    expect(keys.job.rangeUntil({ type: "a", id: "m" })).toEqual({ begin, end });
    const before = { begin, end: SUBSPACE.pack([2, "a", "m"]) };
    expect(keys.job.rangeBefore({ type: "a", id: "m" })).toEqual(before);
  });

  test("returns the range of keys with the same leading elements", () => {
    expect(keys.job.range()).toEqual(SUBSPACE.range([2]));
    expect(keys.job.range({ type: "a" })).toEqual(SUBSPACE.range([2, "a"]));
    expect(keys.job.prefixKey({ type: "a" })).toEqual(SUBSPACE.pack([2, "a"]));
  });

  test("rejects an undefined element, which would widen a range, and an incomplete key", () => {
    const missing = undefined as unknown as string;
    expect(() => keys.job.range({ type: missing })).toThrow("must be defined");
    expect(() => keys.job.key({ type: "a", id: missing })).toThrow("all elements");
    expect(() => keys.job.key({ type: "a" } as { type: string; id: string })).toThrow(
      "all elements",
    );
  });

  test("unpacks its own keys, and rejects keys of another subspace", () => {
    const elements = { state: 2, group: "g" };
    expect(keys.count.unpack(keys.count.key(elements))).toEqual(elements);
    expect(() => keys.count.unpack(new Subspace().pack([7, 2, "g"]))).toThrow();
  });

  test("documents its rows in the order of the table", () => {
    expect(keyShapes(ROWS).map(({ key, value, note }) => [key, value, note])).toEqual([
      ["(2, type, id)", "JobFacts", "lock"],
      ["(6, type, versionstamp)", "(id)", ""],
      ["(7, state, group)", "counter", ""],
      ["(8)", "counter", "watched"],
    ]);
  });
});
