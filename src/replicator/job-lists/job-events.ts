/** Job events for clients: log entries with the current job, filtered. */
import type { KeyValueStore } from "../../kv/index.ts";
import type { JobEventLog, LoggedEvent } from "../job-log/job-event-log.ts";
import {
  isOfDatabase,
  isProvenCaughtUp,
  type JobFilter,
  matchesName,
  matchesReason,
  matchesStatus,
  type NameFilter,
} from "./job-filter.ts";
import type { FoundJob, JobLists } from "./job-lists.ts";
import type { JobEntry } from "./job-views.ts";

export interface FollowedPast {
  /** Events before the position, newest first, filtered like `FollowedPage`. */
  readonly events: readonly FollowedEvent[];
  /** Start of the previous page; undefined if there are no older events. */
  readonly before: string | undefined;
}

/** Events read per transaction. */
const PAGE_ROWS_MAX = 100;

export interface FollowedEvent extends LoggedEvent {
  /** The job as it is now; undefined if it was removed. */
  readonly entry: JobEntry | undefined;
  /** Whether the filter matches now; otherwise it matched before. */
  readonly isMatch: boolean;
}

export interface FollowedPage {
  /**
   * Events after the position, oldest first, of jobs that match now or matched before the event.
   */
  readonly events: readonly FollowedEvent[];
  /** Start of the next page; undefined if there are no more events yet. */
  readonly next: string | undefined;
  /** Whether matching events may be missing because they were deleted. */
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

  /** Returns the current end of the log. */
  lastId(): Promise<string> {
    const { kv, log } = this.#parts;
    return kv.read((tx) => log.lastId(tx));
  }

  /** Returns the next events after a position. Throws REPLICATOR_EVENT_INVALID. */
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

  /** Scans up to `limit` events before a position, or the last. Throws REPLICATOR_EVENT_INVALID. */
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

  /** Resolves when there is an event after this position; rejects with the signal's reason. */
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

/** Selects events whose job matches now, or matched before. */
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
    (filter.isCaughtUp !== true || isProvenCaughtUp(entry.backlog)) &&
    (filter.reason === undefined || matchesReason(filter.reason, entry.data)) &&
    (filter.name === undefined || matchesName(filter.name, entry));
  return { ...event, entry, isMatch };
}

/**
 * Whether the filter may have matched before. Earlier run states and failure reasons are unknown,
 * so filters on them may let additional events through.
 */
function wasMatch(
  { jobId, before }: LoggedEvent,
  filter: JobFilter,
  found: FoundJob | undefined,
): boolean {
  const status = before ?? found?.status;
  if (status === undefined || !isOfDatabase(jobId, filter.databaseUuid)) return false;
  if (filter.name !== undefined && !mayHaveName(filter.name, jobId, found?.entry)) return false;
  return matchesStatus(filter, status, true) || matchesStatus(filter, status, false);
}

/** The name of a removed job is unknown, but its id is not. */
function mayHaveName(name: NameFilter, jobId: string, entry: JobEntry | undefined): boolean {
  if (entry !== undefined) return matchesName(name, entry);
  return name.idPrefixes?.some((prefix) => jobId.startsWith(prefix)) ?? true;
}
