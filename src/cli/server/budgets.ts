/** `tandem budgets`: limits on a cluster's use of a server. */
import type { Command } from "commander";
import type { Budget, BudgetPage, BudgetRates } from "../../contract/index.ts";
import { maskCredentials } from "../../protocol/index.ts";
import { table } from "../terminal/table.ts";
import { WrongUse } from "../terminal/wrong-use.ts";
import { answerWith, printOk } from "./answers.ts";
import type { ServerFlags } from "./server-client.ts";
import { askServer, withServer } from "./server-command.ts";

interface BudgetFlags extends ServerFlags {
  readonly read?: readonly string[];
  readonly write?: readonly string[];
}

export function addBudgetsCommand(program: Command): void {
  const budgets = program
    .command("budgets")
    .description("limit the requests that the cluster sends to a server, or to an account on it");
  withServer(budgets.command("list"))
    .description("list all budgets")
    .action((flags: ServerFlags) =>
      askServer(flags, async ({ budgets }) => [await budgets.list().page(), print]),
    );
  const limits = "one or more limits: requests_per_sec=N, documents_per_sec=N, megabytes_per_sec=N";
  withServer(budgets.command("set <name>"))
    .description("set the budget of couch.example, couch.example:5984 or alice@couch.example")
    .option("--read <limit...>", limits)
    .option("--write <limit...>", limits)
    .action((name: string, flags: BudgetFlags) =>
      askServer(flags, async (server) => {
        const budget = { ...limitsOf("read", flags.read), ...limitsOf("write", flags.write) };
        if (Object.keys(budget).length === 0) {
          throw new WrongUse("budgets set: expected limits, such as --read requests_per_sec=50");
        }
        return [await server.budgets.put(checked(name), budget), printOk];
      }),
    );
  withServer(budgets.command("remove <name>"))
    .description("remove the limits")
    .action((name: string, flags: ServerFlags) =>
      askServer(flags, async (server) => [await server.budgets.remove(checked(name)), printOk]),
    );
}

function limitsOf(side: "read" | "write", texts: readonly string[] | undefined): Partial<Budget> {
  if (texts === undefined) return {};
  const entries = texts.map((text) => {
    const [, name, number] = /^(\w+)=(\d+(?:\.\d+)?)$/.exec(text) ?? [];
    if (name === undefined) {
      throw new WrongUse(`--${side} ${text}: expected a limit such as requests_per_sec=50`);
    }
    return [name, Number(number)] as const;
  });
  return { [side]: Object.fromEntries(entries) };
}

/**
 * Rejects a budget name that contains a password: connection errors show the path of the request.
 */
function checked(name: string): string {
  const shown = maskCredentials(name);
  if (shown !== name) {
    throw new WrongUse(
      `budget name ${shown}: expected HOST, HOST:PORT or ACCOUNT@HOST[:PORT], without a password`,
    );
  }
  return name;
}

function print(answer: unknown): string {
  const { budgets } = answerWith<BudgetPage>(answer, { budgets: "array" });
  if (budgets.length === 0) return "there are no budgets\n";
  const rows = budgets.map(({ name, read, write }) => [name, shown(read), shown(write)]);
  return table([["SERVER", "READ", "WRITE"], ...rows], { whole: [0], wrapsLast: true });
}

function shown(limits: BudgetRates): string {
  const entries = Object.entries(limits);
  return entries.length === 0 ? "-" : entries.map(([name, value]) => `${name}=${value}`).join(" ");
}
