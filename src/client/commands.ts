/** Commands for many jobs. A command can continue after its response. */
import type { BulkCommand, CommandedJobs, JobPage } from "../contract/index.ts";
import { pause } from "./pause.ts";
import { type QueryParameters, type Requests, segmentOf } from "./requests.ts";

/** Interval between two requests for the progress of a command. */
const POLL_MS = 500;
/** Page size for counting jobs if the server does not know their total number. */
const COUNT_PAGE_ROWS = 1_000;

type Asker = Pick<Requests, "ask">;

/** Yields the progress of a command until it ends. The last value is its final state. */
export async function* followCommand(
  requests: Asker,
  id: string,
  signal?: AbortSignal,
): AsyncGenerator<BulkCommand, void, undefined> {
  for (;;) {
    const path = `_tandem/commands/${segmentOf(id)}`;
    const command = await requests.ask<BulkCommand>("GET", path, { signal });
    yield command;
    if (command.state !== "running") return;
    await pause(POLL_MS, signal);
    signal?.throwIfAborted();
  }
}

/** The id of a command that continues after its response; undefined if the command has ended. */
export function continuedCommand(answer: CommandedJobs): string | undefined {
  return answer.changed === undefined ? answer.id : undefined;
}

export interface JobCount {
  readonly count: number;
  /** Whether `count` is exact. If not, there are more jobs. */
  readonly isExact: boolean;
}

export interface JobPreview extends JobCount {
  readonly first: JobPage["jobs"];
}

export interface CountOptions {
  /** Maximum number of jobs to return. Default: 0. */
  readonly limit?: number;
  /** Maximum number of pages to read if the server does not know the total. Default: all. */
  readonly pagesMax?: number;
  readonly signal?: AbortSignal | undefined;
}

/** Counts the jobs that a filter selects, and returns the first ones. */
export async function countJobs(
  requests: Asker,
  filter: QueryParameters,
  { limit = 0, pagesMax = Number.POSITIVE_INFINITY, signal }: CountOptions = {},
): Promise<JobPreview> {
  const page = (query: QueryParameters): Promise<JobPage> =>
    requests.ask("GET", "_tandem/jobs", { query: { ...filter, ...query }, signal });
  const { total_rows: total, jobs: first } = await page({ limit });
  if (total !== null) return { count: total, isExact: true, first };
  let count = 0;
  let bookmark: string | undefined;
  for (let pageCount = 0; pageCount < pagesMax; pageCount++) {
    const next = await page({ limit: COUNT_PAGE_ROWS, bookmark });
    count += next.jobs.length;
    if (next.bookmark === null) return { count, isExact: true, first };
    bookmark = next.bookmark;
  }
  return { count, isExact: false, first };
}
