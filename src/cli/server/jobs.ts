/**
 * `tandem jobs …`: shows the jobs of a server, and sends commands for one job or for all matching
 * jobs.
 */

import type { Command } from "commander";
import { parseJson } from "../../base/index.ts";
import type { JobPage } from "../../contract/index.ts";
import { percentEncode } from "../../protocol/index.ts";
import { WrongUse } from "../terminal/wrong-use.ts";
import { answerWith } from "./answers.ts";
import { type ConfirmFlags, commandJobs, printCommands, undoCommand } from "./bulk-commands.ts";
import { printFailingGroups } from "./failing-groups.ts";
import type { ShownJob } from "./job-output.ts";
import type { CreatingServer, Printer } from "./server-client.ts";
import { askServer, withServer } from "./server-command.ts";

/** Filters supported by the API, with the value that each is compared with. */
const FILTERS: readonly (readonly [name: string, argument: string, description: string])[] = [
  [
    "state",
    "<state>",
    "pending, running, crashing, completed or failed; separate several states by commas",
  ],
  [
    "name",
    "<prefix>",
    "beginning of DATABASE/DOCUMENT, RULE/DATABASE or an id; with * anywhere, a pattern",
  ],
  ["database", "<name>", "the _replicator database of the job's document"],
  ["rule", "<name>", "the rule that created the job"],
  ["source", "<host>", "host of the source, or the name of a database of the server"],
  ["target", "<host>", "host of the target, or the name of a database of the server"],
  ["owner", "<name>", "owner of the job"],
  ["error", "<class>", "class of a failing job's last failure, such as unauthorized"],
  [
    "host",
    "<host>",
    "host of the last failure: 'HOST', 'HOST:PORT', 'HOST:' (default port only) or '-' (no host)",
  ],
  ["side", "<side>", "side of the last failure: 'source', 'target' or '-' (neither)"],
  ["reason", "<text>", "text contained in the reason of the last failure"],
];
/** Further filters of events. */
const EVENT_FILTERS: typeof FILTERS = [
  ["kind", "<kinds>", "such as failing or removed; separate several kinds by commas"],
  ["job", "<name>", "name or id of the job, which may have been removed"],
  ["endpoint", "<host>", "host of source or target, or the name of a database of the server"],
];
/** Filters whose value is a number. */
const NUMBER_FILTERS: readonly (readonly [name: string, option: string, description: string])[] = [
  ["behind_sec", "behind-sec", "only jobs whose lag is at least this long"],
];
/** Filters without a value; `--no-…` negates them. */
const FLAG_FILTERS: readonly (readonly [name: string, option: string, description: string])[] = [
  ["failing", "failing", "failing jobs, also while they are retried"],
  ["left_behind", "left-behind", "jobs with failed documents"],
  ["paused", "paused", "paused jobs"],
  ["parked", "parked", "jobs that have caught up and wait for changes without occupying a slot"],
  ["stalled", "stalled", "jobs whose last runs made no progress"],
  ["behind", "behind", "jobs with pending changes"],
];

const EVENT_NAMES = EVENT_FILTERS.map(([name]) => name);
/** Paging options of a list. */
const PAGE = ["limit", "sort", "descending", "bookmark"];
/** Option with the reason of a command. `--reason` is already a filter. */
const WHY = ["--why <text>", "reason for the command, stored with the job"] as const;
/** Number of runs printed by `show`. */
const RUNS_SHOWN = 10;

interface Flags extends ConfirmFlags, Readonly<Record<string, string | boolean | undefined>> {
  readonly server: string;
  readonly json?: boolean;
}

/** Loads the output, with the schemas of the contract, which help and completion do not need. */
const loadOutput = () => import("./job-output.ts");

export function addJobsCommand(program: Command): void {
  const jobs = program.command("jobs").description("list and control the jobs of a server");
  const define = (usage: string, description: string): Command =>
    withServer(jobs.command(usage)).description(description);

  withFilters(define("list", "list jobs in order of their ids"))
    .option("--limit <number>", "maximum number (default 100)")
    .option(
      "--sort <order>",
      "id (default), lag (only jobs that are behind), since or tries (only failing jobs)",
    )
    .option("--descending", "reverse the order")
    .option("--bookmark <text>", "continue after the previous page")
    .action((flags: Flags) =>
      askServer(flags, async (server) => {
        const answer = await server.ask("GET", `/_tandem/jobs?${query(flags, PAGE)}`);
        const { jobs, bookmark } = answerWith<JobPage>(answer, { jobs: "array" });
        if (jobs.length > 0 || bookmark !== null || flags.bookmark !== undefined) {
          const { printJobs } = await loadOutput();
          return [answer, printJobs];
        }
        if (namesOnly(flags)) process.exitCode = 1;
        return [answer, () => `${nothingFound(flags)}\n`];
      }),
    );
  define("failing", "failing jobs grouped by error and host, largest group first")
    .option("--limit <number>", "maximum number of groups (default 100)")
    .option("--skip <number>", "number of groups to skip")
    .action((flags: Flags) =>
      askServer(flags, async (server) => {
        const page = pageQuery(flags, ["limit", "skip"]);
        return [await server.ask("GET", `/_tandem/failing?${page}`), printFailingGroups];
      }),
    );
  withEventFilters(
    define("watch", "print events of jobs as they happen, until interrupted"),
  ).action(async (flags: Flags) => {
    const { followServer } = await import("./server-feed.ts");
    const { printEvent } = await loadOutput();
    const path = `/_tandem/events?${query(flags, EVENT_NAMES)}`;
    await followServer(flags, path, ({ event, data }) =>
      flags.json === true ? `${data}\n` : printEvent(event, JSON.parse(data)),
    );
  });
  withEventFilters(define("events", "list past events of jobs, newest first"))
    .option("--limit <number>", "maximum number, at most 100 (default)")
    .option("--before <place>", "continue after the previous page")
    .action((flags: Flags) =>
      askServer(flags, async (server) => {
        const { printPast } = await loadOutput();
        const asked = query(flags, [...EVENT_NAMES, "limit", "before"]);
        return [await server.ask("GET", `/_tandem/events/_past?${asked}`), printPast];
      }),
    );
  define(
    "show <id>",
    "show one job, given by its name (DATABASE/DOCUMENT or RULE/DATABASE) or id",
  ).action((id: string, flags: Flags) =>
    askServer(flags, async (server) => {
      const { printJob, runsOf } = await loadOutput();
      const job = await server.ask("GET", jobPath(id));
      if (flags.json === true) return [job, printJob];
      const runs = runsOf(await server.ask("GET", `${jobPath(id)}/runs?limit=${RUNS_SHOWN}`));
      return [{ ...(job as ShownJob), runs }, printJob];
    }),
  );
  define("runs <id>", "list the last runs of a job, newest first").action(
    (id: string, flags: Flags) =>
      askServer(flags, async (server) => {
        const { printRuns } = await loadOutput();
        return [await server.ask("GET", `${jobPath(id)}/runs`), printRuns];
      }),
  );
  define("failures <id>", "list the failed documents of a job")
    .option("--retry", "retry the failed documents before listing them")
    .action((id: string, flags: Flags) =>
      askServer(flags, async (server) => {
        const path = `${jobPath(id)}/failures`;
        if (flags.retry === true) await server.ask("POST", `${path}/_retry`);
        const { printFailures } = await loadOutput();
        return [await server.ask("GET", path), printFailures];
      }),
    );
  for (const [name, description] of [
    ["pause", "stop jobs until they are resumed; running jobs write a checkpoint first"],
    ["resume", "resume paused jobs"],
    ["retry", "run waiting or ended jobs now"],
    ["reset", "restart jobs from the beginning of the source, ignoring checkpoints"],
    ["cancel", "cancel jobs permanently; deletes the documents of persistent jobs"],
  ] as const) {
    withConfirmation(withFilters(define(`${name} [id]`, description)))
      .option(...WHY)
      .action((id: string | undefined, flags: Flags) =>
        askServer(flags, (server) => command(server, name, id, flags)),
      );
  }
  withConfirmation(
    withFilters(
      define(
        "retry-failures",
        "retry the failed documents of jobs, without waiting for the result",
      ),
    ),
  ).action((flags: Flags) =>
    askServer(flags, (server) => command(server, "retry_failures", undefined, flags)),
  );
  define(
    "undo [command]",
    "undo a pause or resume of several jobs; by default your last one",
  ).action((id: string | undefined, flags: Flags) =>
    askServer(flags, (server) => undoCommand(server, id)),
  );
  define("commands", "list the last commands for several jobs, newest first").action(
    (flags: Flags) =>
      askServer(flags, async (server) => [
        await server.ask("GET", "/_tandem/commands"),
        printCommands,
      ]),
  );
  define("start-from <id> <sequence>", "restart a job at this update sequence of the source")
    .option(...WHY)
    .action((id: string, sequence: string, flags: Flags) =>
      askServer(flags, async (server) => {
        const body = { since: sequenceOf(sequence), ...whyOf(flags) };
        return [await server.ask("POST", `${jobPath(id)}/_start_from`, body), printDone];
      }),
    );
}

async function command(
  server: CreatingServer,
  name: string,
  id: string | undefined,
  flags: Flags,
): Promise<readonly [unknown, Printer]> {
  const found = query(flags, ["all"]);
  if ((id === undefined) === (found === "")) {
    throw new WrongUse("expected the id of one job, a filter for several, or --all");
  }
  if (id !== undefined) {
    return [await server.ask("POST", `${jobPath(id)}/_${name}`, whyOf(flags)), printDone];
  }
  const asked = { action: name, query: new URLSearchParams(found), body: whyOf(flags) };
  return commandJobs(server, asked, flags);
}

/** Options of a command that can apply to several jobs. */
function withConfirmation(command: Command): Command {
  return command
    .option("--all", "select all jobs of the server")
    .option("--yes", "do not ask for confirmation if several jobs are selected")
    .option("--dry-run", "only show the jobs that would be affected");
}

/** The body with the reason, or `undefined` if none is given. */
function whyOf({ why }: Flags): { readonly why: unknown } | undefined {
  return why === undefined ? undefined : { why };
}

function withEventFilters(command: Command): Command {
  for (const [name, argument, description] of EVENT_FILTERS) {
    command.option(`--${name} ${argument}`, `only events with this ${name}: ${description}`);
  }
  return withFilters(command);
}

function withFilters(command: Command): Command {
  for (const [name, argument, description] of FILTERS) {
    command.option(`--${name} ${argument}`, `only jobs with this ${name}: ${description}`);
  }
  for (const [, option, description] of NUMBER_FILTERS) {
    command.option(`--${option} <number>`, description);
  }
  for (const [, option, description] of FLAG_FILTERS) {
    command.option(`--${option}`, `only ${description}`);
    command.option(`--no-${option}`, `all but ${description}`);
  }
  return command;
}

function query(flags: Flags, further: readonly string[]): string {
  const parameters = pageQuery(flags, [...FILTERS.map(([filter]) => filter), ...further]);
  for (const [name, option] of [...FLAG_FILTERS, ...NUMBER_FILTERS]) {
    const value = flags[option.replace(/-(.)/g, (_, letter) => letter.toUpperCase())];
    if (value !== undefined) parameters.set(name, String(value));
  }
  return parameters.toString();
}

/** Builds a query from the flags with these names. */
function pageQuery(flags: Flags, names: readonly string[]): URLSearchParams {
  const given = names.filter((name) => flags[name] !== undefined);
  return new URLSearchParams(given.map((name): [string, string] => [name, String(flags[name])]));
}

/** Filters that name something. Without a match, the name is probably mistyped. */
const NAMES: ReadonlySet<string> = new Set([
  "name",
  "database",
  "rule",
  "source",
  "target",
  "owner",
]);

/** Whether all filters name something, and there is one. */
function namesOnly(flags: Flags): boolean {
  const given = [...new URLSearchParams(query(flags, [])).keys()];
  return given.length > 0 && given.every((name) => NAMES.has(name));
}

function nothingFound(flags: Flags): string {
  const words = [...new URLSearchParams(query(flags, []))].map(([name, value]) => {
    const option = name.replaceAll("_", "-");
    if (value === "true") return `--${option}`;
    return value === "false" ? `--no-${option}` : `--${option} ${value}`;
  });
  return words.length === 0 ? "there are no jobs" : `no jobs match ${words.join(" ")}`;
}

function jobPath(id: string): string {
  return `/_tandem/jobs/${percentEncode(id)}`;
}

/**
 * Parses a sequence: a number, string or array in JSON. Text that is not JSON is used as a string.
 */
function sequenceOf(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return text;
  }
}

/** Prints the response to a command for one job. */
function printDone(answer: unknown): string {
  const { no_changes } = answerWith<{ readonly no_changes?: boolean }>(answer, { ok: "boolean" });
  return no_changes === true ? "nothing to change\n" : "done\n";
}
