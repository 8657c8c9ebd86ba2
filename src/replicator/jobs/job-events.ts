/** Events of jobs for those who follow them: what the log tells, the job as it is now, and whether a filter finds it. */
import type { KeyValueStore } from "../../kv/index.ts";
import type { JobEventLog, LoggedEvent } from "./job-event-log.ts";
import { isOfDatabase, type JobFilter, matchesReason, matchesStatus } from "./job-filter.ts";
import type { FoundJob, JobLists } from "./job-lists.ts";
import type { JobEntry } from "./job-views.ts";

export interface FollowedPast {
  /** The newest first; of these events, those that `FollowedPage` would have. */
  readonly events: readonly FollowedEvent[];
  /** Where the page before begins; undefined: the log has no older events. */
  readonly before: string | undefined;
}

/** Events read in one transaction. */
const PAGE_ROWS_MAX = 100;

export interface FollowedEvent extends LoggedEvent {
  /** As the job is now; undefined when it is gone. */
  readonly entry: JobEntry | undefined;
  /** Whether the filter finds the job now; if not, it did before. */
  readonly isMatch: boolean;
}

export interface FollowedPage {
  /** Oldest first; those of jobs that the filter finds, or found before the event. Of a job that is gone, those that changed what lists find it by. */
  readonly events: readonly FollowedEvent[];
  /** Where the next page begins; undefined when there are no more events yet. */
  readonly next: string | undefined;
  /** Whether older events have been forgotten that would belong here. */
  readonly isGap: boolean;
}

export interface JobEventsParts {
  readonly kv: KeyValueStore;
  readonly log: JobEventLog;
  readonly lists: JobLists;
}

export class JobEvents {
  readonly #parts: JobEventsParts;

  constructor(parts: JobEventsParts) {
    this.#parts = parts;
  }

  /** Where the log ends now. */
  lastId(): Promise<string> {
    const { kv, log } = this.#parts;
    return kv.read((tx) => log.lastId(tx));
  }

  /** The next events behind a place. Throws REPLICATOR_EVENT_INVALID for what is no id of an event. */
  async page(afterId: string, filter: JobFilter): Promise<FollowedPage> {
    const { kv, log, lists } = this.#parts;
    const page = await kv.read((tx) => log.page(tx, afterId, PAGE_ROWS_MAX));
    const { events, forgottenId } = page;
    return {
      events: await followedEvents(lists, events, filter),
      next: events.at(-1)?.id ?? forgottenId,
      isGap: forgottenId !== undefined,
    };
  }

  /**
   * Looks through as many events as `limit` says, 100 at most, those before a place, or the last of all. Throws
   * REPLICATOR_EVENT_INVALID for what is no id of an event.
   */
  async past(
    beforeId: string | undefined,
    limit: number,
    filter: JobFilter,
  ): Promise<FollowedPast> {
    const { kv, log, lists } = this.#parts;
    const rows = Math.min(limit, PAGE_ROWS_MAX);
    const { events, hasOlder } = await kv.read((tx) => log.past(tx, beforeId, rows));
    return {
      events: await followedEvents(lists, events, filter),
      before: hasOlder ? events.at(-1)?.id : undefined,
    };
  }

  /** Resolves when there is an event behind this place; rejects with the reason of the signal. */
  async next(afterId: string, signal: AbortSignal): Promise<void> {
    const { kv, log } = this.#parts;
    const watch = await kv.transact(
      async (tx) => ((await log.lastId(tx)) === afterId ? log.watch(tx) : undefined),
      { whenUnknown: "retry", signal },
    );
    try {
      await watch?.fired(signal);
    } finally {
      watch?.cancel();
    }
  }
}

/** Those that the filter finds now, or found before. */
async function followedEvents(
  lists: JobLists,
  events: readonly LoggedEvent[],
  filter: JobFilter,
): Promise<readonly FollowedEvent[]> {
  const found = await lists.byId([...new Set(events.map(({ jobId }) => jobId))]);
  return events
    .map((event) => followedEvent(event, filter, found.get(event.jobId)))
    .filter(
      (event) =>
        event.changes.length > 0 &&
        (event.isMatch || wasMatch(event, filter, found.get(event.jobId))),
    );
}

function followedEvent(
  event: LoggedEvent,
  filter: JobFilter,
  found: FoundJob | undefined,
): FollowedEvent {
  const { entry, status } = found ?? {};
  const isMatch =
    entry !== undefined &&
    status !== undefined &&
    isOfDatabase(event.jobId, filter.databaseUuid) &&
    matchesStatus(filter, status, entry.state === "running") &&
    (filter.reason === undefined || matchesReason(filter.reason, entry.data));
  return { ...event, entry, isMatch };
}

/**
 * Whether lists may have found the job by the filter before. Whether it ran then, and what its failure said, is not known: a filter for
 * states also tells of jobs that it would have found in the other case.
 */
function wasMatch(
  { jobId, before }: LoggedEvent,
  filter: JobFilter,
  found: FoundJob | undefined,
): boolean {
  const status = before ?? found?.status;
  if (status === undefined || !isOfDatabase(jobId, filter.databaseUuid)) return false;
  return matchesStatus(filter, status, true) || matchesStatus(filter, status, false);
}
