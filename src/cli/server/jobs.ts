/**
 * `tandem jobs …`: shows the jobs of a server, and sends commands for one job or for all matching
 * jobs.
 */

import type { Command } from "commander";
import { parseJson } from "../../base/index.ts";
import { EVENT_FILTERS, JOB_FILTERS, type JobPage } from "../../contract/index.ts";
import { percentEncode } from "../../protocol/index.ts";
import { WrongUse } from "../terminal/wrong-use.ts";
import { answerWith } from "./answers.ts";
import { type ConfirmFlags, commandJobs, printCommands, undoCommand } from "./bulk-commands.ts";
import { printFailingGroups, printFailingRules } from "./failing-groups.ts";
import {
  pastOf,
  printEvent,
  printFailures,
  printJob,
  printJobs,
  printPast,
  printRuns,
  runsOf,
  type ShownJob,
} from "./job-output.ts";
import { printLogins } from "./logins.ts";
import type { CreatingServer, Printer } from "./server-client.ts";
import { askServer, withServer } from "./server-command.ts";

/** Job filters whose options take a value, with the placeholder for the value in the help. */
const VALUE_FILTERS = {
  state: "state",
  name: "prefix",
  database: "name",
  rule: "name",
  source: "host",
  target: "host",
  source_database: "prefix",
  target_database: "prefix",
  owner: "name",
  tag: "tags",
  error: "class",
  host: "host",
  side: "side",
  reason: "text",
  behind_sec: "number",
} as const;
const VALUE_NAMES = Object.keys(VALUE_FILTERS) as (keyof typeof VALUE_FILTERS)[];
/** Additional event filters, with their placeholders. */
const VALUES_OF_EVENTS = { kind: "kinds", job: "name", endpoint: "host" } as const;
const EVENT_NAMES = Object.keys(VALUES_OF_EVENTS) as (keyof typeof VALUES_OF_EVENTS)[];
/** Filters without a value; `--no-…` negates them. */
const FLAG_FILTERS = [
  "failing",
  "left_behind",
  "paused",
  "parked",
  "stalled",
  "behind",
  "unknown",
] as const;

/** Paging options of a list. */
const PAGE = ["limit", "sort", "descending", "bookmark"];
/** Option with the reason for a command. It is not called `--reason`, which is already a filter. */
const WHY = ["--why <text>", "reason for the command, stored with the job"] as const;
/** Number of runs printed by `show`. */
const RUNS_SHOWN = 10;

interface Flags extends ConfirmFlags, Readonly<Record<string, string | boolean | undefined>> {
  readonly server: string;
  readonly json?: boolean;
}

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
          return [answer, printJobs];
        }
        return [answer, await nothingFound(server, "jobs", flags)];
      }),
    );
  define(
    "failing",
    "failing jobs grouped by error and host, and rules that cannot list their source",
  )
    .option("--limit <number>", "maximum number of groups (default 100)")
    .option("--skip <number>", "number of groups to skip")
    .option("--group-by <tag>", "group jobs by a tag instead, such as tag:team")
    .action((flags: Flags) =>
      askServer(flags, async (server) => {
        const page = pageQuery(flags, ["limit", "skip"]);
        if (flags.groupBy !== undefined) page.set("group_by", String(flags.groupBy));
        const jobs = await server.ask("GET", `/_tandem/failing?${page}`);
        const rules = printFailingRules(await server.ask("GET", "/_tandem/rules?failing=true"));
        return [jobs, (answer) => printFailingGroups(answer) + rules];
      }),
    );
  define("logins", "accounts whose next login has to wait, because the server rejected a login")
    .option("--limit <number>", "maximum number of accounts (default 100)")
    .option("--skip <number>", "number of accounts to skip")
    .action((flags: Flags) =>
      askServer(flags, async (server) => {
        const page = pageQuery(flags, ["limit", "skip"]);
        return [await server.ask("GET", `/_tandem/logins?${page}`), printLogins];
      }),
    );
  withEventFilters(
    define("watch", "print events of jobs as they happen, until interrupted"),
  ).action(async (flags: Flags) => {
    const { followServer } = await import("./server-feed.ts");
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
        const asked = new URLSearchParams(query(flags, [...EVENT_NAMES, "limit", "before"]));
        let answer = await server.ask("GET", `/_tandem/events/_past?${asked}`);
        let page = pastOf(answer);
        // A page covers a part of the log, in which nothing may match.
        while (page.events.length === 0 && page.before !== null) {
          asked.set("before", page.before);
          answer = await server.ask("GET", `/_tandem/events/_past?${asked}`);
          page = pastOf(answer);
        }
        if (page.events.length > 0 || flags.before !== undefined) return [answer, printPast];
        return [answer, await nothingFound(server, "events", flags)];
      }),
    );
  define(
    "show <id>",
    "show one job, given by its name (DATABASE/DOCUMENT or RULE/DATABASE) or id",
  ).action((id: string, flags: Flags) =>
    askServer(flags, async (server) => {
      const job = await server.ask("GET", jobPath(id));
      if (flags.json === true) return [job, printJob];
      const runs = runsOf(await server.ask("GET", `${jobPath(id)}/runs?limit=${RUNS_SHOWN}`));
      return [{ ...(job as ShownJob), runs }, printJob];
    }),
  );
  define("runs <id>", "list the last runs of a job, newest first").action(
    (id: string, flags: Flags) =>
      askServer(flags, async (server) => {
        return [await server.ask("GET", `${jobPath(id)}/runs`), printRuns];
      }),
  );
  define("failures <id>", "list the failed documents of a job")
    .option("--retry", "retry the failed documents before listing them")
    .action((id: string, flags: Flags) =>
      askServer(flags, async (server) => {
        const path = `${jobPath(id)}/failures`;
        if (flags.retry === true) await server.ask("POST", `${path}/_retry`);
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
  const [answer, print] = await commandJobs(server, asked, flags);
  const { matched } = answerWith<{ readonly matched: number }>(answer, { matched: "number" });
  return [answer, matched > 0 ? print : await nothingFound(server, "jobs", flags)];
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
  for (const name of EVENT_NAMES) {
    const description = `only events with this ${name}: ${EVENT_FILTERS[name].meaning}`;
    command.option(`--${name} <${VALUES_OF_EVENTS[name]}>`, description);
  }
  return withFilters(command);
}

function withFilters(command: Command): Command {
  for (const name of VALUE_NAMES) {
    const description = `only jobs with this ${optionOf(name)}: ${JOB_FILTERS[name].meaning}`;
    command.option(`--${optionOf(name)} <${VALUE_FILTERS[name]}>`, description);
  }
  for (const name of FLAG_FILTERS) {
    command.option(`--${optionOf(name)}`, `only ${JOB_FILTERS[name].meaning}`);
    command.option(`--no-${optionOf(name)}`, `all but ${JOB_FILTERS[name].meaning}`);
  }
  return command;
}

function optionOf(filter: string): string {
  return filter.replaceAll("_", "-");
}

function query(flags: Flags, further: readonly string[]): string {
  const parameters = pageQuery(flags, further);
  for (const name of [...VALUE_NAMES, ...FLAG_FILTERS]) {
    const value = flags[optionOf(name).replace(/-(.)/g, (_, letter) => letter.toUpperCase())];
    if (value !== undefined) parameters.set(name, String(value));
  }
  return parameters.toString();
}

/** Builds a query from the flags with these names. */
function pageQuery(flags: Flags, names: readonly string[]): URLSearchParams {
  const given = names.filter((name) => flags[name] !== undefined);
  return new URLSearchParams(given.map((name): [string, string] => [name, String(flags[name])]));
}

/**
 * Returns the printer for a list without matches. The exit code is 1 if it was searched for a name
 * that no job has, which is probably mistyped.
 */
async function nothingFound(
  server: CreatingServer,
  what: "events" | "jobs",
  flags: Flags,
): Promise<Printer> {
  const filters = new URLSearchParams(query(flags, what === "events" ? EVENT_NAMES : []));
  // Loaded lazily, because help and completion do not need the HTTP client.
  const { nameUnknown } = await import("./unknown-names.ts");
  if (await nameUnknown(server, filters)) process.exitCode = 1;
  const words = [...filters].map(([name, value]) => {
    if (value === "true") return `--${optionOf(name)}`;
    return value === "false" ? `--no-${optionOf(name)}` : `--${optionOf(name)} ${value}`;
  });
  const found = words.length === 0 ? `there are no ${what}` : `no ${what} match ${words.join(" ")}`;
  return () => `${found}\n`;
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
