/** `/_tandem/budgets`: limits on the cluster's use of a server. CouchDB has no counterpart. */
import { errorCode } from "../../base/index.ts";
import { ProtocolError } from "../../protocol/index.ts";
import {
  type Budget,
  BudgetInvalidError,
  type Budgets,
  budgetView,
  parseBudget,
} from "../../replicator/index.ts";
import { type Call, parameter } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { readMembers } from "../http/request-body.ts";
import { json } from "../http/responses.ts";
import { OPERATIONS } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";
import { noSuch } from "./no-such.ts";

export interface BudgetRoutesParts {
  readonly budgets: Budgets;
}

export function budgetRoutes({ budgets }: BudgetRoutesParts): readonly Route[] {
  const path = "/_tandem/budgets/{name}";
  return [
    defineRoute("GET", "/_tandem/budgets", OPERATIONS, async () => {
      const all = [...(await budgets.list())].map(([name, budget]) => ({
        name,
        ...budgetView(budget),
      }));
      return json(200, { total_rows: all.length, budgets: all });
    }),
    defineRoute("GET", path, OPERATIONS, (call) => showBudget(budgets, call)),
    defineRoute("PUT", path, OPERATIONS, (call) => setBudget(budgets, call)),
    defineRoute("DELETE", path, OPERATIONS, (call) => removeBudget(budgets, call)),
  ];
}

async function showBudget(budgets: Budgets, call: Call): Promise<ApiResponse> {
  const budget = await checked(() => budgets.get(parameter(call, "name")));
  if (budget === undefined) throw missing(call);
  return json(200, budgetView(budget));
}

async function setBudget(budgets: Budgets, call: Call): Promise<ApiResponse> {
  const members = await readMembers(call);
  const existed = await checked(() => {
    const budget: Budget = parseBudget(Object.fromEntries(members));
    return budgets.set(parameter(call, "name"), budget);
  });
  return json(existed ? 200 : 201, { ok: true });
}

async function removeBudget(budgets: Budgets, call: Call): Promise<ApiResponse> {
  const existed = await checked(() => budgets.set(parameter(call, "name"), undefined));
  if (!existed) throw missing(call);
  return json(200, { ok: true });
}

async function checked<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    if (error instanceof BudgetInvalidError) {
      throw new ProtocolError(400, "bad_request", error.reason, { cause: error });
    }
    if (errorCode(error) === "REPLICATOR_TOO_MANY_BUDGETS") {
      throw new ProtocolError(400, "bad_request", (error as Error).message, { cause: error });
    }
    throw error;
  }
}

function missing(call: Call): ProtocolError {
  const hint = "/_tandem/budgets and `tandem budgets list` show the names";
  return noSuch("budget", parameter(call, "name"), hint);
}
