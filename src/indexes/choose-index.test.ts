import { expect, test } from "vitest";
import { ALL_DOCUMENTS, type Candidate, chooseIndex } from "./choose-index.ts";

const index = (name: string, ...columns: readonly string[]): Candidate => ({
  design: `_design/${name}`,
  name,
  columns,
  isPartial: false,
});
const A = index("a", "a");
const AB = index("ab", "a", "b");
const C = index("c", "c");
const PARTIAL = { ...index("partial", "a"), isPartial: true };

function choose(useIndex: readonly string[]) {
  const selector = { $and: [{ a: { $eq: 1 } }, { b: { $eq: 1 } }] };
  const wanted = { selector, sortFields: [], useIndex, allowFallback: true };
  const choice = chooseIndex([ALL_DOCUMENTS, A, AB, C, PARTIAL], wanted);
  if (choice.kind !== "chosen") throw new Error(choice.kind);
  const reasons = choice.rejected.map(({ index: { name }, reason, isUsable, ranking }) => [
    name,
    reason,
    isUsable,
    ranking,
  ]);
  return [choice.index.name, reasons];
}

test("a field index is preferred to the primary index, and each rejected index has a reason", () => {
  expect(choose([])).toEqual([
    "ab",
    [
      ["_all_docs", "unfavored_type", true, 2],
      ["a", "less_overlap", true, 1],
      ["c", "field_mismatch", false, 3],
      ["partial", "is_partial", false, 4],
    ],
  ]);
});

test("a named index is preferred to other usable indexes", () => {
  expect(choose(["a"])).toEqual([
    "a",
    [
      ["_all_docs", "excluded_by_user", true, 1],
      ["ab", "excluded_by_user", true, 1],
      ["c", "field_mismatch", false, 2],
      ["partial", "is_partial", false, 3],
    ],
  ]);
});
