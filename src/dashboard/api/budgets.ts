/** Budgets for the cluster's use of a server (docs/api/budgets.md). */
import type { Budget } from "./budget.ts";
import { request, segmentOf } from "./request.ts";

/** Sets the budget of a server, or of an account on it. Throws a RequestError. */
export async function setBudget(name: string, budget: Budget): Promise<void> {
  await request("PUT", pathOf(name), { body: { ...budget } });
}

/** Removes a budget. Throws a RequestError. */
export async function removeBudget(name: string): Promise<void> {
  await request("DELETE", pathOf(name));
}

function pathOf(name: string): string {
  return `_tandem/budgets/${segmentOf(name)}`;
}
