/**
 * The tables of planted faults name existing places and existing tests, and contain only changes
 * that the mutation tool makes.
 */
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { EXPLAINED_FAULTS } from "../tools/mutate/explained-faults.mjs";
import { drawFaults, faultsOf } from "../tools/mutate/faults.mjs";
import { NAMED_FAULTS } from "../tools/mutate/named-faults.mjs";

const pathOf = (path: string): string => fileURLToPath(new URL(`../${path}`, import.meta.url));

test.each(NAMED_FAULTS.map((fault) => [fault.rule, fault] as const))(
  "the fault can be planted, and its tests exist: %s",
  (_, fault) => {
    const parts = readFileSync(pathOf(fault.path), "utf8").split(fault.text);
    expect(parts).toHaveLength(2);
    expect(fault.tests.filter((file) => !existsSync(pathOf(file)))).toEqual([]);
  },
);

test.each(EXPLAINED_FAULTS.map((fault) => [fault.path, fault.reason, fault] as const))(
  "the tool can plant the explained fault in %s: %s",
  (_, reason, { path, text, replacement }) => {
    const before = readFileSync(pathOf(path), "utf8");
    expect(before.split(text)).toHaveLength(2);
    const after = before.replace(text, () => replacement);
    const planted = faultsOf(path, before).map(
      ({ from, to, replacement: other }) => before.slice(0, from) + other + before.slice(to),
    );
    expect(planted).toContain(after);
    expect(reason).not.toBe("");
  },
);

const TEXT = `export function first(list: readonly number[], limit = 5): number | undefined {
  if (list.length < limit && limit > 0) return list[0];
  trace.event("list.long", { count: 1 });
  list.some((each) => !isOdd(each));
  throw new Error("long");
}
`;

test("faults are planted in conditions, numbers, calls and statements, but not in messages", () => {
  const faults = faultsOf("src/base/first.ts", TEXT);
  const shown = faults.map(({ line, rule, replacement }) => `${line} ${rule}: ${replacement}`);
  expect(shown).toEqual([
    "1 off by one: 6",
    "2 condition always false: false",
    "2 left side dropped: limit > 0",
    "2 right side dropped: list.length < limit",
    "2 operator: <=",
    "2 operator: >=",
    "2 off by one: 1",
    "2 off by one: 1",
    "4 statement removed: ;",
    "4 method: every",
    "4 negation dropped: isOdd(each)",
    "5 throw removed: ;",
  ]);
});

test("a seed always selects the same faults, even if the files also contain other code", () => {
  const faults = faultsOf("src/base/first.ts", TEXT);
  const moved = faultsOf("src/base/first.ts", `// A line more.\n${TEXT}`);
  const drawn = (all: typeof faults, seed: string): readonly string[] =>
    drawFaults(all, 4, seed).map(({ line, rule }) => `${rule} ${line}`);
  const again = drawn(moved, "1").map((text) => text.replace(/\d+$/, (line) => `${+line - 1}`));
  expect(again).toEqual(drawn(faults, "1"));
  expect(drawn(faults, "1")).toHaveLength(4);
  expect(drawn(faults, "2")).not.toEqual(drawn(faults, "1"));
});
