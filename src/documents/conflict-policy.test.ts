import { describe, expect, test } from "vitest";
import {
  checkConflictDatabase,
  compareWriteTimes,
  parseConflictPolicy,
  winningLeaf,
  writeTimeOf,
} from "./conflict-policy.ts";

const parse = (policy: object) => parseConflictPolicy(new Map(Object.entries(policy)));

const refused = (reason: string) =>
  expect.objectContaining({ status: 400, reason: expect.stringContaining(reason) });

describe("a policy", () => {
  test.each([
    { resolve: "last_write", field: "updated_at" },
    { resolve: "last_write", field: "meta.time" },
    { resolve: "longest_history" },
    { resolve: "remote" },
    { resolve: "function", function: "function (docs) { return docs[0]; }" },
  ])("%j is accepted", (policy) => {
    expect(parse(policy)).toEqual(policy);
  });

  test.each([
    [{}, "`resolve` must be last_write, longest_history, remote, function"],
    [{ resolve: "newest" }, "`resolve` must be"],
    [{ resolve: ["remote"] }, "`resolve` must be"],
    [{ resolve: "remote", field: "a" }, '`field` is not known with `resolve`: "remote"'],
    [{ resolve: "last_write" }, "`field` must be"],
    [{ resolve: "last_write", field: "" }, "`field` must be"],
    [{ resolve: "last_write", field: "_rev" }, "`field` must be"],
    [{ resolve: "last_write", field: "a..b" }, "`field` must be"],
    [{ resolve: "last_write", field: "a".repeat(201) }, "`field` must be"],
    [{ resolve: "function" }, "`function` must be"],
    [{ resolve: "function", function: "x".repeat(60_001) }, "`function` must be"],
  ])("%j is rejected, and the reason names the member", (policy, reason) => {
    expect(() => parse(policy)).toThrow(refused(reason));
  });

  test.each(["_users", "_replicator", "joe/_replicator"])("%s cannot have a policy", (name) => {
    expect(() => checkConflictDatabase(name)).toThrow(refused("system database"));
  });
});

describe("values of a field", () => {
  const ascending: readonly (readonly unknown[])[] = [
    [
      undefined,
      null,
      true,
      "soon",
      "",
      {},
      [1],
      2 ** 53,
      -(2 ** 53),
      "2026-02-30",
      "2026-01-01T24:00Z",
    ],
    [-1.5],
    [0, -0],
    [2 ** 53 - 1],
    ["2026-01-01", "2026-01-01T00:00", "2026-01-01 01:00:00+01:00", "2025-12-31T23:00:00-0100"],
    ["2026-01-01T00:00:00.000000001Z"],
    ["2026-01-01T00:00:00.1Z", "2026-01-01T00:00:00,100Z"],
    ["2026-01-01T00:00:00.12z"],
    ["2026-01-01T00:00:01Z"],
  ];

  test("are ordered by time in all formats, and invalid values come first", () => {
    const ranked = ascending.flatMap((values, rank) => values.map((value) => ({ value, rank })));
    for (const left of ranked) {
      for (const right of ranked) {
        const order = compareWriteTimes(writeTimeOf(left.value), writeTimeOf(right.value));
        const expected = Math.sign(left.rank - right.rank);
        expect([left.value, right.value, Math.sign(order)]).toEqual([
          left.value,
          right.value,
          expected,
        ]);
      }
    }
  });
});

describe("the winning leaf", () => {
  const leaf = (value: unknown, isRemote = false) => {
    return { revision: "1-a", isRemote, written: writeTimeOf(value) };
  };

  test.each([
    [{ resolve: "last_write", field: "at" }, [1, 3, 2], 1],
    [{ resolve: "last_write", field: "at" }, ["x", undefined], 0],
    [{ resolve: "last_write", field: "at" }, [5, 5], 0],
    [{ resolve: "last_write", field: "at" }, [undefined, 0], 1],
    [{ resolve: "longest_history" }, [1, 2], 0],
  ] as const)("under %j, for the values %j, has index %i", (policy, values, expected) => {
    expect(
      winningLeaf(
        policy,
        values.map((value) => leaf(value)),
      ),
    ).toBe(expected);
  });

  test.each([
    [[false, true, true], 1],
    [[false, false], 0],
    [[true, true], 0],
  ])("under `remote`, for leaves with `isRemote` %j, has index %i", (remote, expected) => {
    const leaves = remote.map((isRemote) => leaf(1, isRemote));
    expect(winningLeaf({ resolve: "remote" }, leaves)).toBe(expected);
  });
});
