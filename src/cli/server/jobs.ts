/**
 * `tandem jobs …`: shows the jobs of a server, and sends commands for one job or for all matching
 * jobs.
 */

import type { Command } from "commander";
import { parseJson } from "../../base/index.ts";
import { type JobAction, withQuery } from "../../client/index.ts";
import { EVENT_FILTERS, JOB_FILTERS, type JobPage, type Topology } from "../../contract/index.ts";
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
} from "./job-output.ts";
import { printLogins } from "./logins.ts";
import type { Printer, TypedServer } from "./server-client.ts";
import { askServer, given, withServer } from "./server-command.ts";
import { printTopology } from "./topology.ts";

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
  readonly why?: string;
  readonly json?: boolean;
}

export function addJobsCommand(program: Command): void {
  const jobs = program.command("jobs").description("list and control the jobs of a server");
  const define = (usage: string, description: string): Command =>
    withServer(jobs.command(usage)).description(description);

  withFilters(define("list", "list jobs in order of their ids"))
    .option("--limit <number>", "maximum number of jobs (default 100)")
    .option(
      "--sort <order>",
      "id (default); lag, which lists only jobs that are behind; since or tries, which list only failing jobs",
    )
    .option("--descending", "reverse the order")
    .option("--bookmark <text>", "continue after the previous page")
    .action((flags: Flags) =>
      askServer(flags, async (server) => {
        const answer = await server.jobs.list(query(flags, PAGE)).page();
        const { jobs, bookmark } = answerWith<JobPage>(answer, { jobs: "array" });
        if (jobs.length > 0 || bookmark !== null || flags.bookmark !== undefined) {
          return [answer, printJobs];
        }
        return [answer, await nothingFound(server, "jobs", flags)];
      }),
    );
  define(
    "failing",
    "failing jobs grouped by error and host, and rules whose source cannot be listed",
  )
    .option("--limit <number>", "maximum number of groups (default 100)")
    .option("--skip <number>", "number of groups to skip")
    .option("--group-by <tag>", "group jobs by a tag instead, such as tag:team")
    .action((flags: Flags) =>
      askServer(flags, async (server) => {
        const groupBy = flags.groupBy === undefined ? {} : { group_by: String(flags.groupBy) };
        const query = { ...given(flags, ["limit", "skip"]), ...groupBy };
        const jobs = await server.jobs.failing(query).page();
        const rules = printFailingRules(await server.rules.list({ failing: true }).page());
        return [jobs, (answer) => printFailingGroups(answer) + rules];
      }),
    );
  withFilters(define("topology", "show which servers copy to which, with lags and loops")).action(
    (flags: Flags) =>
      askServer(flags, async (server) => {
        const topology = await server.jobs.topology(query(flags, []));
        const { edges } = answerWith<Topology>(topology, { edges: "array" });
        return [
          topology,
          edges.length > 0 ? printTopology : await nothingFound(server, "jobs", flags),
        ];
      }),
  );
  define("logins", "accounts whose next login has to wait, because the server rejected a login")
    .option("--limit <number>", "maximum number of accounts (default 100)")
    .option("--skip <number>", "number of accounts to skip")
    .action((flags: Flags) =>
      askServer(flags, async ({ jobs }) => [
        await jobs.logins(given(flags, ["limit", "skip"])).page(),
        printLogins,
      ]),
    );
  withEventFilters(
    define("watch", "print events of jobs as they happen, until interrupted"),
  ).action(async (flags: Flags) => {
    const { followServer } = await import("./server-feed.ts");
    const path = withQuery("_tandem/events", { ...query(flags, EVENT_NAMES) });
    await followServer(flags, path, ({ event, data }) =>
      flags.json === true ? `${data}\n` : printEvent(event, JSON.parse(data)),
    );
  });
  withEventFilters(define("events", "list past events of jobs, newest first"))
    .option("--limit <number>", "maximum number, at most 100 (default)")
    .option("--before <place>", "continue after the previous page")
    .action((flags: Flags) =>
      askServer(flags, async (server) => {
        const asked = query(flags, [...EVENT_NAMES, "limit", "before"]);
        let page = pastOf(await server.pastEvents(asked).page());
        // A page covers a part of the log, and might contain no matching event.
        while (page.events.length === 0 && page.before !== null) {
          page = pastOf(await server.pastEvents({ ...asked, before: page.before }).page());
        }
        if (page.events.length > 0 || flags.before !== undefined) return [page, printPast];
        return [page, await nothingFound(server, "events", flags)];
      }),
    );
  define(
    "show <id>",
    "show one job, given by its name (DATABASE/DOCUMENT or RULE/DATABASE) or id",
  ).action((id: string, flags: Flags) =>
    askServer(flags, async (server) => {
      const job = await server.jobs.get(id);
      if (flags.json === true) return [job, printJob];
      const runs = runsOf(await server.jobs.runs(id, { limit: RUNS_SHOWN }).page());
      return [{ ...job, runs }, printJob];
    }),
  );
  define("runs <id>", "list the last runs of a job, newest first").action(
    (id: string, flags: Flags) =>
      askServer(flags, async ({ jobs }) => [await jobs.runs(id).page(), printRuns]),
  );
  define("failures <id>", "list the failed documents of a job")
    .option("--retry", "also retry the failed documents, before listing them")
    .action((id: string, flags: Flags) =>
      askServer(flags, async ({ jobs }) => {
        if (flags.retry === true) await jobs.retryFailures(id);
        return [await jobs.failures(id).page(), printFailures];
      }),
    );
  for (const [name, description] of [
    ["pause", "stop jobs until they are resumed; running jobs write a checkpoint first"],
    ["resume", "resume paused jobs"],
    ["retry", "run jobs that are waiting or have ended, as soon as possible"],
    ["reset", "restart jobs from the beginning of the source, ignoring checkpoints"],
    ["cancel", "cancel jobs permanently, and delete the documents of persistent jobs"],
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
    "undo a command that paused or resumed several jobs (default: your last such command)",
  ).action((id: string | undefined, flags: Flags) =>
    askServer(flags, (server) => undoCommand(server, id)),
  );
  define("commands", "list the latest commands that acted on several jobs, newest first").action(
    (flags: Flags) =>
      askServer(flags, async (server) => [
        await server.ask("GET", "/_tandem/commands"),
        printCommands,
      ]),
  );
  define(
    "start-from <id> <sequence>",
    "restart a job at this update sequence of the source, or time (2026-01-31T23:59:59Z)",
  )
    .option(...WHY)
    .action((id: string, sequence: string, flags: Flags) =>
      askServer(flags, async ({ jobs }) => [
        await jobs.startFrom(id, sequenceOf(sequence), flags),
        printDone,
      ]),
    );
}

async function command(
  server: TypedServer,
  name: JobAction | "retry_failures",
  id: string | undefined,
  flags: Flags,
): Promise<readonly [unknown, Printer]> {
  const found = query(flags, ["all"]);
  // Usually, a variable of a script is unset.
  const empty = Object.entries(found).find(([, value]) => value === "");
  if (empty !== undefined) throw new WrongUse(`--${optionOf(empty[0])} must not be empty`);
  if ((id === undefined) === (Object.keys(found).length === 0)) {
    throw new WrongUse("expected the id of one job, a filter for several, or --all");
  }
  if (id !== undefined) {
    return [await server.jobs.command(name as JobAction, id, flags), printDone];
  }
  const asked = { action: name, query: found, body: { why: flags.why } };
  const [answer, print] = await commandJobs(server, asked, flags);
  const { matched } = answerWith<{ readonly matched: number }>(answer, { matched: "number" });
  return [answer, matched > 0 ? print : await nothingFound(server, "jobs", flags)];
}

/** Adds the options of a command that can apply to several jobs. */
function withConfirmation(command: Command): Command {
  return command
    .option("--all", "select all jobs of the server")
    .option("--yes", "do not ask for confirmation if several jobs are selected")
    .option("--dry-run", "only show the jobs that would be affected");
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

/** The job filters and the `further` flags that the user has given. */
function query(flags: Flags, further: readonly string[]): object {
  const filters = [...VALUE_NAMES, ...FLAG_FILTERS].map((name) => {
    const flag = optionOf(name).replace(/-(.)/g, (_, letter) => letter.toUpperCase());
    return [name, flags[flag]] as const;
  });
  return {
    ...given(flags, further),
    ...Object.fromEntries(filters.filter(([, value]) => value !== undefined)),
  };
}

/**
 * Returns the printer for a list without matches. Sets exit code 1 if a filter names something that
 * no job has, since the name is probably mistyped.
 */
async function nothingFound(
  server: TypedServer,
  what: "events" | "jobs",
  flags: Flags,
): Promise<Printer> {
  const filters = query(flags, what === "events" ? EVENT_NAMES : []);
  // Loaded lazily, because help and completion do not need the HTTP client.
  const { nameUnknown } = await import("./unknown-names.ts");
  if (await nameUnknown(server, filters)) process.exitCode = 1;
  const words = Object.entries(filters).map(([name, value]) => {
    if (value === true) return `--${optionOf(name)}`;
    return value === false ? `--no-${optionOf(name)}` : `--${optionOf(name)} ${value}`;
  });
  const found = words.length === 0 ? `there are no ${what}` : `no ${what} match ${words.join(" ")}`;
  return () => `${found}\n`;
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

/** Returns a text for the result of a command for one job. */
function printDone(answer: unknown): string {
  const { no_changes } = answerWith<{ readonly no_changes?: boolean }>(answer, { ok: "boolean" });
  return no_changes === true ? "nothing to change\n" : "done\n";
}
