/** `tandem rules …`: rules that copy the databases of a server. */

import { readFileSync } from "node:fs";
import type { Command } from "commander";
import { parseJson, printJson } from "../../base/index.ts";
import type { RuleBody } from "../../client/index.ts";
import type {
  PlannedDatabases,
  Rule,
  RulePlan,
  RuleStatus,
  RulesPage,
} from "../../contract/index.ts";
import { counted } from "../terminal/counted.ts";
import { quoted } from "../terminal/quoted.ts";
import { printable, table } from "../terminal/table.ts";
import { WrongUse } from "../terminal/wrong-use.ts";
import { answerWith } from "./answers.ts";
import type { ServerFlags } from "./server-client.ts";
import { askServer, given, withServer } from "./server-command.ts";

interface Flags extends ServerFlags {
  readonly dryRun?: boolean;
  readonly limit?: string;
  readonly bookmark?: string;
}

type Endpoint = string | { readonly url: string } | undefined;

interface OutcomeView {
  readonly dry_run?: boolean;
  readonly no_changes?: boolean;
}

const DRY_RUN = ["--dry-run", "show the effect on jobs without applying it"] as const;

export function addRulesCommand(program: Command): void {
  const rules = program
    .command("rules")
    .description(
      "copy all databases with matching names of a server, including databases created later",
    );
  withServer(rules.command("list"))
    .description("list all rules with the state of their jobs")
    .option("--limit <number>", "maximum number of rules (default 100)")
    .option("--bookmark <text>", "continue after the previous page")
    .action((flags: Flags) =>
      askServer(flags, async ({ rules }) => [
        await rules.list(given(flags, ["limit", "bookmark"])).page(),
        printList,
      ]),
    );
  withServer(rules.command("show <name>"))
    .description("show one rule with the state of its jobs")
    .action((name: string, flags: Flags) =>
      askServer(flags, async (server) => {
        // Loads the names of states lazily, because help and completion do not need them.
        const { statesOf } = await import("./job-output.ts");
        const rule = await server.rules.get(name);
        return [rule, (answer) => printRule(answer, statesOf)];
      }),
    );
  withServer(rules.command("put <name> <file>"))
    .description("create or change a rule from a file with its JSON; - reads standard input")
    .option(...DRY_RUN)
    .action((name: string, file: string, flags: Flags) =>
      askServer(flags, async ({ rules }) => [
        await rules[flags.dryRun === true ? "plan" : "put"](name, readRule(file)),
        printOutcome,
      ]),
    );
  withServer(rules.command("delete <name>"))
    .description("remove a rule; cancels its jobs and keeps the copies")
    .option(...DRY_RUN)
    .action((name: string, flags: Flags) =>
      askServer(flags, async ({ rules }) => [
        await rules[flags.dryRun === true ? "planRemoval" : "remove"](name),
        printOutcome,
      ]),
    );
}

function readRule(file: string): RuleBody {
  try {
    return parseJson(readFileSync(file === "-" ? 0 : file, "utf8")) as RuleBody;
  } catch (error) {
    throw new WrongUse(`${file}: expected the JSON of a rule: ${(error as Error).message}`);
  }
}

function printList(answer: unknown): string {
  const { rules, bookmark } = answerWith<RulesPage>(answer, { rules: "array" });
  if (rules.length === 0) return "there are no rules\n";
  const rows = rules.map(({ name, status }) => [
    name,
    String(status.jobs),
    String(status.parked),
    String(status.failing),
    String(status.left_behind),
    status.lag_sec === 0 ? "-" : `${status.lag_sec} s`,
  ]);
  const notes = rules.map(({ source, target, pair, status }) => [
    `${urlOf(source as Endpoint)} ${pair === true ? "⇄" : "→"} ${urlOf(target as Endpoint)}`,
    errorOf(status),
  ]);
  const head = ["RULE", "JOBS", "PARKED", "FAILING", "LEFT BEHIND", "LAG"];
  const more = bookmark === null ? "" : `More: --bookmark ${quoted(bookmark)}\n`;
  return table([head, ...rows], { whole: [0], notes: [[], ...notes] }) + more;
}

function printRule(answer: unknown, statesOf: (status: RuleStatus) => readonly string[]): string {
  const { name, status, ...rule } = answerWith<Rule>(answer, { status: "object" });
  const facts = [
    ["rule", name],
    ...Object.entries(rule).map(([member, value]) => [member, shown(value)]),
    ["matching", `${status.databases ?? "not listed yet"}`],
    ["jobs", [status.jobs, ...statesOf(status)].join(", ")],
    ["parked", String(status.parked)],
    ["failing", String(status.failing)],
    ["failed documents", String(status.left_behind)],
    ["lag", `${status.lag_sec} s`],
    ["listed", `${status.listed ?? "never"}`],
    ["follows", `${status.followed_by ?? "-"}`],
    ["last error", errorOf(status)],
    ["cannot copy", String(status.cannot_copy)],
    ...status.faults.map(({ database, reason }) => ["", `${database}: ${reason}`]),
  ];
  return table(
    facts.map(([label = "", text = ""]) => [label, text]),
    { wrapsLast: true },
  );
}

function shown(value: unknown): string {
  return typeof value === "string" ? value : printJson(value);
}

function urlOf(endpoint: Endpoint): string {
  return typeof endpoint === "string" ? endpoint : (endpoint?.url ?? "?");
}

function errorOf({ last_error: failure }: RuleStatus): string {
  return failure === null ? "" : `${failure.error}: ${failure.reason}`;
}

function printOutcome(answer: unknown): string {
  const { dry_run, no_changes } = answerWith<OutcomeView>(answer, { ok: "boolean" });
  if (dry_run !== true) {
    return no_changes === true
      ? "nothing to change\n"
      : "done; its jobs are updated in the background\n";
  }
  const { databases, create, replace, cancel, cannot_copy, overwrite_security } =
    answer as RulePlan;
  const lines = [
    ["database matches", "databases match", databases],
    ["database gets a job", "databases get a job", create],
    ["job is replaced", "jobs are replaced", replace],
    ["job is cancelled", "jobs are cancelled", cancel],
    ["database cannot be copied", "databases cannot be copied", cannot_copy],
    ...(overwrite_security === undefined
      ? []
      : [
          [
            "security object of a target is overwritten",
            "security objects of targets are overwritten",
            overwrite_security,
          ] as const,
        ]),
  ] as const;
  return lines.map(([one, many, planned]) => plannedLine(one, many, planned)).join("");
}

function plannedLine(one: string, many: string, { count, first }: PlannedDatabases): string {
  const names = count > first.length ? [...first, "…"] : first;
  const named = count === 0 ? "" : `: ${names.join(", ")}`;
  return `${printable(`${counted(count, one, many)}${named}`)}\n`;
}
