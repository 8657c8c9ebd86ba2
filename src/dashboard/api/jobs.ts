/** Lists of jobs, single jobs, and commands. */
import type { JobCount, JobPreview, RunningCommand } from "../../client/index.ts";
import type { BulkCommand, JobPage } from "../../contract/index.ts";
import { client, RequestError } from "./request.ts";
import type { Command, Query } from "./types.ts";

/** Page size for the first pages, small enough to load quickly. */
const PAGE_ROWS = 200;
/** Page size for later pages, for users who scroll far. */
const LATER_PAGE_ROWS = 1_000;
const COUNT_PAGES_MAX = 20;
/** Number of affected jobs shown in the preview of a command. */
const PREVIEW_ROWS = 5;
/** Maximum number of concurrent commands for single jobs. */
const COMMANDS_AT_ONCE = 6;

export type { JobCount };

/** Targets of a command: all jobs that match a filter, or single jobs by name. */
export type Targets =
  | { readonly kind: "filter"; readonly query: Query }
  | { readonly kind: "names"; readonly names: readonly string[] };

export interface CommandResult {
  readonly matched: number;
  readonly changed: number;
  /** Number of jobs whose state does not permit the command. */
  readonly failed: number;
  /** Identifies the jobs that the command changed. */
  readonly undo: Undo;
  /** Rejected commands for single jobs, with the reason. */
  readonly refusals: readonly (readonly [name: string, reason: string])[];
}

/** Identifies what a command has changed: the command itself, or single jobs by name. */
export type Undo =
  | { readonly kind: "command"; readonly id: string }
  | { readonly kind: "names"; readonly names: readonly string[] };

/**
 * Reads a page of jobs: the one that begins at the bookmark, or the first one without a bookmark.
 * `knownRows` is the number of rows before the page.
 */
export function readJobs(
  query: Query,
  { bookmark, knownRows }: { readonly bookmark: string | undefined; readonly knownRows: number },
  signal: AbortSignal,
): Promise<JobPage> {
  const limit = knownRows < LATER_PAGE_ROWS ? PAGE_ROWS : LATER_PAGE_ROWS;
  return client.jobs.list({ ...(query as object), limit, bookmark }, { signal }).page();
}

/**
 * Counts the jobs that match a filter. If the node does not know the total, reads up to `pagesMax`
 * pages.
 */
export function countJobs(
  query: Query,
  signal?: AbortSignal,
  pagesMax = COUNT_PAGES_MAX,
): Promise<JobCount> {
  return client.jobs.count(filterPart(query) as object, { pagesMax, signal });
}

/** Returns the jobs that a command would affect. */
export function previewJobs(query: Query, signal: AbortSignal): Promise<JobPreview> {
  const options = { limit: PREVIEW_ROWS, pagesMax: COUNT_PAGES_MAX, signal };
  return client.jobs.count(filterPart(query) as object, options);
}

/** Query parameters for order and paging. */
const ORDERING = new Set(["sort", "descending", "skip", "limit", "bookmark"]);

/** Returns those parameters of a view's query that select jobs. */
export function filterPart(query: Query): Query {
  return Object.fromEntries(Object.entries(query).filter(([name]) => !ORDERING.has(name)));
}

/** Whether the command is stored as an operator's decision, with its reason. */
export function isDecision(command: Command): boolean {
  return command !== "retry_failures";
}

/**
 * Runs a command for `targets`. If they are a filter, throws a RequestError on failure; if they are
 * single jobs, returns the rejections. `why` is the reason of a decision and can be empty.
 */
export async function runCommand(
  command: Command,
  targets: Targets,
  why = "",
  onProgress: (command: BulkCommand) => void = () => {},
): Promise<CommandResult> {
  const options = { why: (isDecision(command) && why.trim()) || undefined };
  if (targets.kind === "filter") {
    const filter = filterPart(targets.query);
    const named = Object.keys(filter).length === 0 ? "all" : (filter as object);
    return ended(client.jobs.commandAll(command, named, options), onProgress);
  }
  const waiting = [...targets.names];
  const refusals: [string, string][] = [];
  const changedNames: string[] = [];
  const work = async () => {
    for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
      try {
        if (command === "retry_failures") await client.jobs.retryFailures(name);
        else if ((await client.jobs.command(command, name, options)).no_changes === true) continue;
        changedNames.push(name);
      } catch (error) {
        if (!(error instanceof RequestError)) throw error;
        refusals.push([name, error.message]);
      }
    }
  };
  await Promise.all(Array.from({ length: COMMANDS_AT_ONCE }, work));
  return {
    matched: targets.names.length,
    changed: changedNames.length,
    failed: refusals.length,
    undo: { kind: "names", names: changedNames },
    refusals,
  };
}

/** Undoes a command: runs the `opposite` command for exactly the jobs that the command changed. */
export async function undoCommand(opposite: Command, undo: Undo): Promise<CommandResult> {
  if (undo.kind === "names") return runCommand(opposite, undo);
  return ended(client.commands.undo(undo.id));
}

/** Waits until a command has ended. Returns its result. */
async function ended(
  command: RunningCommand,
  onProgress: (command: BulkCommand) => void = () => {},
): Promise<CommandResult> {
  for await (const progress of command) onProgress(progress);
  const { id = "", ...counts } = await command;
  return { ...counts, undo: { kind: "command", id }, refusals: [] };
}
