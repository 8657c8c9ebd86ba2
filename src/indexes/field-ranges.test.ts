import { expect, test } from "vitest";
import { type Bound, fieldRanges, type Range } from "./field-ranges.ts";

const OPERATORS = ["$eq", "$gt", "$gte", "$lt", "$lte"] as const;
/** Values below, between, above and equal to the operands of the terms. */
const VALUES = [0, 1, 2, 3, 4];

type Term = readonly [operator: (typeof OPERATORS)[number], value: number];

const TERMS: readonly Term[] = OPERATORS.flatMap((operator) =>
  [1, 2, 3].map((value) => [operator, value] as const),
);

const PASSES: Readonly<Record<Term[0], (value: number, operand: number) => boolean>> = {
  $eq: (value, operand) => value === operand,
  $gt: (value, operand) => value > operand,
  $gte: (value, operand) => value >= operand,
  $lt: (value, operand) => value < operand,
  $lte: (value, operand) => value <= operand,
};

function contains(range: Range | "empty" | undefined, value: number): boolean {
  if (range === undefined || range === "empty") return false;
  const isWithin = ({ operator, ...bound }: Bound): boolean =>
    !("value" in bound) || PASSES[operator](value, bound.value as number);
  return isWithin(range.low) && isWithin(range.high);
}

const valuesIn = (terms: readonly Term[]): readonly number[] => {
  const selector = { $and: terms.map(([operator, value]) => ({ n: { [operator]: value } })) };
  const range = fieldRanges(selector).get("n");
  return VALUES.filter((value) => contains(range, value));
};

const valuesThatPass = (terms: readonly Term[]): readonly number[] =>
  VALUES.filter((value) => terms.every(([operator, operand]) => PASSES[operator](value, operand)));

test("up to three terms on a field select exactly the matching values, including the ends of a range", () => {
  const lists = TERMS.flatMap((first) => [
    [first],
    ...TERMS.flatMap((second) => [
      [first, second],
      ...TERMS.map((third) => [first, second, third]),
    ]),
  ]);
  expect(lists).toHaveLength(15 + 15 ** 2 + 15 ** 3);
  const differing = lists.filter(
    (terms) => valuesIn(terms).join() !== valuesThatPass(terms).join(),
  );
  expect(differing).toEqual([]);
});
