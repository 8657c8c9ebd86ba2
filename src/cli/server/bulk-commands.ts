/**
 * Commands for many jobs: shows which jobs would be affected, asks for confirmation, and follows
 * the progress.
 */

import { createInterface } from "node:readline/promises";
import { continuedCommand, type JobPreview, withQuery } from "../../client/index.ts";
import type { BulkCommand, CommandedJobs, CommandPage } from "../../contract/index.ts";
import { percentEncode } from "../../protocol/index.ts";
import { counted } from "../terminal/counted.ts";
import { Progress } from "../terminal/progress.ts";
import { quoted } from "../terminal/quoted.ts";
import { printable, table } from "../terminal/table.ts";
import { WrongUse } from "../terminal/wrong-use.ts";
import { answerWith } from "./answers.ts";
import type { Created, Printer, TypedServer } from "./server-client.ts";

/** Number of jobs named as examples when a command has to be confirmed. */
const EXAMPLES = 3;
/** Number of jobs above which a destructive command is confirmed by typing the number. */
const TYPED_COUNT_MIN = 100;

/** Maximum number of commands that the server lists. */
const COMMANDS_MAX = 100;

/** Commands whose effect cannot be undone. */
const DESTRUCTIVE: ReadonlySet<string> = new Set(["reset", "cancel"]);
/** Commands that `tandem jobs undo` reverts. */
const UNDOABLE: ReadonlySet<string> = new Set(["pause", "resume"]);

export interface ConfirmFlags {
  /** Whether to send the command without confirmation. */
  readonly yes?: boolean;
  /** Whether to show the affected jobs without sending the command. */
  readonly dryRun?: boolean;
}

/** Sends a command for the jobs that `query` selects, after the user has confirmed the command. */
export async function commandJobs(
  server: TypedServer,
  {
    action,
    query,
    body,
  }: {
    readonly action: string;
    readonly query: object;
    readonly body: unknown;
  },
  { yes = false, dryRun = false }: ConfirmFlags,
): Promise<readonly [unknown, Printer]> {
  if (dryRun || !yes) {
    const preview = await previewOf(server, query);
    const verb = action.replaceAll("_", " ");
    if (dryRun) return [preview, () => `would ${verb} ${described(preview)}\n`];
    if (preview.matched > 0) await confirm(action, verb, preview);
  }
  const created = await server.create(
    `/${withQuery(`_tandem/jobs/_${action}`, { ...query })}`,
    body,
  );
  const undo = UNDOABLE.has(action) ? idIn(created) : undefined;
  return [await ended(server, created), (done) => printDone(done, undo)];
}

/** Undoes a command, or the last one if no id is given. */
export async function undoCommand(
  server: TypedServer,
  id: string | undefined,
): Promise<readonly [unknown, Printer]> {
  const { id: undone } = id === undefined ? await lastUndoable(server) : { id };
  const created = await server.create(`${pathOf(undone)}/_undo`);
  return [await ended(server, created), (done) => printDone(done, undefined)];
}

export function printCommands(answer: unknown): string {
  const { commands } = answerWith<CommandPage>(answer, { commands: "array" });
  if (commands.length === 0) return "no commands in the last week\n";
  const rows = commands.map(({ id, action, started, state, matched, changed, user }) => [
    id,
    action,
    started.slice(5, 16).replace("T", " "),
    state,
    `${changed}/${matched}`,
    user ?? "-",
  ]);
  const heading = ["ID", "COMMAND", "BEGAN (UTC)", "STATE", "CHANGED", "USER"];
  return table([heading, ...rows], { soft: [5], whole: [0] });
}

interface Preview {
  readonly matched: number;
  /** Names of the first jobs. */
  readonly examples: readonly string[];
}

async function previewOf(server: TypedServer, query: object): Promise<Preview> {
  const { all: _, ...filter }: { readonly all?: boolean } = query;
  const found = await server.jobs.count(filter, { limit: EXAMPLES });
  const { count, first } = answerWith<JobPreview>(found, { count: "number", first: "array" });
  return { matched: count, examples: first.map(({ name }) => name) };
}

function described({ matched, examples }: Preview): string {
  const names = examples.map((name) => `\n  ${printable(name)}`).join("");
  if (matched <= examples.length) return `${counted(matched, "job")}${names && `:${names}`}`;
  return `${counted(matched, "job")}, for example:${names}`;
}

/** Throws a usage error unless the user confirms. */
async function confirm(action: string, verb: string, preview: Preview): Promise<void> {
  const { matched } = preview;
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    const names = preview.examples.map(printable).join(", ");
    throw new WrongUse(`add --yes to ${verb} ${counted(matched, "job")}, such as ${names}`);
  }
  const isTyped = DESTRUCTIVE.has(action) && matched > TYPED_COUNT_MIN;
  const question = isTyped ? `Type ${matched} to ${verb} them: ` : `${verb} them? [y/N] `;
  // The terminal echoes and edits the line, not readline: `escapeOutputs` would escape readline's
  // control sequences.
  const output = process.stderr;
  const lines = createInterface({ input: process.stdin, output, terminal: false });
  try {
    process.stderr.write(`This would ${verb} ${described(preview)}\n`);
    const answer = (await lines.question(question)).trim().toLowerCase();
    const isSure = isTyped ? answer === String(matched) : answer === "y" || answer === "yes";
    if (!isSure) throw new WrongUse("not confirmed: nothing has changed");
  } finally {
    lines.close();
  }
}

/** Waits for the end of a command that continues after its response (202). */
async function ended(server: TypedServer, { answer }: Created): Promise<unknown> {
  const members = { ok: "boolean", matched: "number" } as const;
  const id = continuedCommand(answerWith<CommandedJobs>(answer, members));
  return id === undefined ? answer : shownCommand(server, id);
}

/**
 * Waits until a command has ended, showing its progress. Returns the ended command. Sets exit code
 * 1 if it was cancelled.
 */
export async function shownCommand(server: TypedServer, id: string): Promise<unknown> {
  const progress = new Progress("command", process.stderr, "jobs");
  let last: BulkCommand | undefined;
  for await (last of server.commands.follow(id)) {
    if (last.state === "running") progress.show(last.done, last.matched);
  }
  if (last?.state === "cancelled") process.exitCode = 1;
  return last;
}

/** The last command of this user. To undo a command of another operator, its id is required. */
async function lastUndoable(server: TypedServer): Promise<BulkCommand> {
  const session = await server.ask("GET", "/_session");
  const { userCtx } = answerWith<{ readonly userCtx: { readonly name: string | null } }>(session, {
    userCtx: "object",
  });
  const answer = await server.ask("GET", `/_tandem/commands?limit=${COMMANDS_MAX}`);
  const { commands } = answerWith<CommandPage>(answer, { commands: "array" });
  const last = commands.find(
    ({ action, undoes, user }) => UNDOABLE.has(action) && undoes === null && user === userCtx.name,
  );
  if (last === undefined) throw new WrongUse("you have issued no command that can be undone");
  return last;
}

function pathOf(id: string): string {
  return `/_tandem/commands/${percentEncode(id)}`;
}

/** Returns a text for the result of a command. `undo` is the command's id if it can be undone. */
function printDone(answer: unknown, undo: string | undefined): string {
  const members = { matched: "number" } as const;
  const done = answerWith<CommandedJobs & Partial<BulkCommand>>(answer, members);
  const { state, matched, done: doneCount = matched, changed = 0, failed = 0 } = done;
  const head =
    state === "cancelled"
      ? `cancelled after ${doneCount} of ${counted(matched, "job")}`
      : `${counted(matched, "job")} found`;
  const refused = failed === 0 ? "" : `, ${failed} in a state that does not allow this`;
  const rest = doneCount - changed - failed;
  const unneeded = rest === 0 ? "" : `, ${rest} needed no change`;
  const hint =
    undo !== undefined && changed > 0 ? `To undo: tandem jobs undo ${quoted(undo)}\n` : "";
  return `${head}, ${changed} changed${unneeded}${refused}\n${hint}`;
}

function idIn({ location }: Created): string | undefined {
  return location?.split("/").at(-1);
}
