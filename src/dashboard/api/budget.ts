/** Budgets and their limits. */

/** Limits of a budget, with their units. */
export const BUDGET_LIMITS = [
  ["requests_per_sec", "requests/s"],
  ["documents_per_sec", "documents/s"],
  ["megabytes_per_sec", "MB/s"],
] as const;

export const BUDGET_DIRECTIONS = ["read", "write"] as const;
