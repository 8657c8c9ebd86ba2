/** Formats budgets, and parses them from form fields. */
import type { Budget, BudgetRates } from "../../contract/index.ts";
import { BUDGET_DIRECTIONS, BUDGET_LIMITS } from "../api/budget.ts";
import { formatNumber } from "./format.ts";

/** Returns the text of a budget, such as `read 50 requests/s, 5 MB/s; write 200 documents/s`. */
export function budgetText(budget: Budget): string {
  const parts = BUDGET_DIRECTIONS.flatMap((direction) => {
    const limits = BUDGET_LIMITS.flatMap(([limit, unit]) => {
      const rate = budget[direction][limit];
      return rate === undefined ? [] : [`${formatNumber(rate)} ${unit}`];
    });
    return limits.length === 0 ? [] : [`${direction} ${limits.join(", ")}`];
  });
  return parts.length === 0 ? "no limit" : parts.join("; ");
}

/**
 * Reads a budget from the fields of a form, which are named `direction.limit`. An empty field means
 * no limit.
 */
export function budgetOf(textOf: (field: string) => string): Budget {
  const ratesOf = (direction: string): BudgetRates =>
    Object.fromEntries(
      BUDGET_LIMITS.flatMap(([limit]) => {
        const text = textOf(`${direction}.${limit}`).trim();
        return text === "" ? [] : [[limit, Number(text)]];
      }),
    );
  return { read: ratesOf("read"), write: ratesOf("write") };
}
