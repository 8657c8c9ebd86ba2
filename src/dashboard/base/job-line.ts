/** A job, reduced to what its row in a long list shows, so that a browser can hold 100,000 jobs. */
import type { Job, JobEvent } from "../../contract/index.ts";
import { lastSuccess } from "./job-figures.ts";

export interface JobLine
  extends Pick<
    Job,
    | "id"
    | "name"
    | "source"
    | "target"
    | "pair"
    | "state"
    | "failing"
    | "parked"
    | "paused"
    | "lag_sec"
    | "start_time"
    | "next_try"
  > {
  /** The job's current failure; null if the job is not failing. */
  readonly failure: {
    readonly class: string;
    readonly reason: string;
    readonly tries: number;
  } | null;
  /** End of the last run without a failure; null if unknown. */
  readonly lastSuccess: string | null;
}

export function lineOf(job: Job): JobLine {
  const { id, name, source, target, pair, state, failing, parked, paused } = job;
  const { lag_sec, start_time, next_try, last_failure } = job;
  return {
    ...{ id, name, source, target, pair, state, failing, parked, paused },
    ...{ lag_sec, start_time, next_try },
    failure: last_failure && {
      class: last_failure.class,
      reason: last_failure.reason,
      tries: last_failure.tries,
    },
    lastSuccess: lastSuccess(job),
  };
}

export interface ChangedLines {
  readonly lines: readonly JobLine[];
  /** Number of listed jobs that no longer exist. */
  readonly goneCount: number;
  /** The last event of each job that is not in the list. */
  readonly others: readonly JobEvent[];
}

/** Applies events, oldest first, to a list of jobs. An event can change the id of its job. */
export function linesAfter(lines: readonly JobLine[], events: readonly JobEvent[]): ChangedLines {
  const lastOf = new Map(events.map((event) => [event.id, event]));
  const idOf = new Map(events.map(({ id, former_id: former = id }) => [former, id]));
  const after: JobLine[] = [];
  const seen = new Set<string>();
  let goneCount = 0;
  for (const line of lines) {
    const id = idOf.get(line.id) ?? line.id;
    const event = lastOf.get(id);
    if (event === undefined) {
      after.push(line);
      continue;
    }
    seen.add(id);
    if (event.job === null) goneCount++;
    else after.push(lineOf(event.job));
  }
  return {
    lines: after,
    goneCount,
    others: [...lastOf.values()].filter(({ id }) => !seen.has(id)),
  };
}
