/** `tandem conflicts policy`, `resolutions` and `undo`: conflicts that a server resolves. */
import { readFileSync } from "node:fs";
import type { Command } from "commander";
import type { UndoneConflicts, UndoSelection } from "../../client/index.ts";
import type { ConflictPolicyStatus, ResolutionPage } from "../../contract/index.ts";
import { percentEncode } from "../../protocol/index.ts";
import { counted } from "../terminal/counted.ts";
import { quoted } from "../terminal/quoted.ts";
import { table } from "../terminal/table.ts";
import { WrongUse } from "../terminal/wrong-use.ts";
import { answerWith, printOk } from "./answers.ts";
import type { ServerFlags } from "./server-client.ts";
import { askServer, withServer } from "./server-command.ts";

interface PolicyFlags extends ServerFlags {
  readonly field?: string;
  readonly file?: string;
}

interface ListFlags extends ServerFlags {
  readonly limit?: string;
  readonly bookmark?: string;
}

interface UndoFlags extends ServerFlags {
  readonly since?: string;
  readonly id?: readonly string[];
}

export function addConflictPolicyCommands(conflicts: Command): void {
  withServer(conflicts.command("policy"))
    .description("show or set how a server resolves the conflicts of a database")
    .argument("<database>")
    .argument("[policy]", "last_write, longest_history, remote, function, or none")
    .option("--field <path>", "with last_write: member with a number or a time, such as meta.time")
    .option(
      "--file <file>",
      "with function: file with a JavaScript function; - reads standard input",
    )
    .action((database: string, resolve: string | undefined, flags: PolicyFlags) =>
      askServer(flags, async (server) => {
        const path = `${pathOf(database)}/policy`;
        if (resolve === undefined) return [await server.ask("GET", path), printPolicy];
        if (resolve === "none") return [await server.ask("DELETE", path), printOk];
        const { field, file } = flags;
        const source = file === undefined ? {} : { function: readSource(file) };
        const policy = { resolve, ...(field === undefined ? {} : { field }), ...source };
        return [await server.ask("PUT", path, policy), printOk];
      }),
    );
  withServer(conflicts.command("resolutions"))
    .description("list the conflicts that a server has resolved, newest first")
    .argument("<database>")
    .option("--limit <rows>", "maximum number of rows (default 100)")
    .option("--bookmark <bookmark>", "continue after the previous page")
    .action((database: string, flags: ListFlags) =>
      askServer(flags, async (server) => {
        const query = new URLSearchParams();
        for (const name of ["limit", "bookmark"] as const) {
          if (flags[name] !== undefined) query.set(name, flags[name]);
        }
        const path = `${pathOf(database)}/resolutions?${query}`;
        return [await server.ask("GET", path), printResolutions];
      }),
    );
  withServer(conflicts.command("undo"))
    .description(
      "remove a database's conflict policy, and restore the leaves that the policy deleted",
    )
    .argument("<database>")
    .option("--since <time>", "only resolutions since a time such as 2026-01-31T12:00:00Z")
    .option("--id <id...>", "only these documents")
    .action((database: string, flags: UndoFlags) =>
      askServer(flags, async (server) => {
        const undone = await server.conflicts.undo(database, selectionOf(flags));
        return [{ ok: true, ...undone }, printUndone];
      }),
    );
}

function pathOf(database: string): string {
  return `/_tandem/databases/${percentEncode(database)}/conflicts`;
}

function readSource(file: string): string {
  try {
    return readFileSync(file === "-" ? 0 : file, "utf8");
  } catch (error) {
    throw new WrongUse(`--file ${quoted(file)}: ${(error as Error).message}`);
  }
}

function selectionOf({ since, id: ids }: UndoFlags): UndoSelection {
  return { ...(since === undefined ? {} : { since }), ...(ids === undefined ? {} : { ids }) };
}

function printPolicy(answer: unknown): string {
  const { policy, since } = answerWith<ConflictPolicyStatus>(answer, {});
  if (policy === null) return "conflicts are not resolved\n";
  const { resolve, field, function: source } = policy;
  const detail = field === undefined ? "" : ` ${field}`;
  return `${resolve}${detail}, since ${since}\n${source === undefined ? "" : `${source}\n`}`;
}

function printResolutions(answer: unknown): string {
  const { resolutions, bookmark } = answerWith<ResolutionPage>(answer, { resolutions: "array" });
  if (resolutions.length === 0) return "no conflicts have been resolved\n";
  const rows = resolutions.map(({ id, time, resolve, result, removed }) => [
    time.slice(0, 19).replace("T", " "),
    id,
    resolve,
    result,
    removed.join(" "),
  ]);
  const heading = ["TIME (UTC)", "DOCUMENT", "POLICY", "REVISION", "REMOVED"];
  const text = table([heading, ...rows], { soft: [1], whole: [0], wrapsLast: true });
  return bookmark === null ? text : `${text}more with --bookmark ${bookmark}\n`;
}

function printUndone(answer: unknown): string {
  const { resolutions, revisions, lost, kept } = answer as UndoneConflicts;
  const done = `${counted(resolutions, "resolution")} undone: ${counted(revisions, "revision")} written`;
  const gone = lost === 0 ? "" : `, ${lost} lost`;
  const left =
    kept === 0 ? "" : `, ${counted(kept, "resolution")} kept (document deleted or write refused)`;
  return `${done}${gone}${left}\n`;
}
