/** Job events for clients: filtered log entries, each with the current state of its job. */
import { append } from "../../base/index.ts";
import type { JobChangeName } from "../../contract/index.ts";
import type { KeyValueStore } from "../../kv/index.ts";
import type { FormerJob, JobEventLog, LoggedEvent } from "../job-log/job-event-log.ts";
import { jobName } from "../jobs/job-name.ts";
import {
  isAmong,
  isOfDatabase,
  isProvenCaughtUp,
  type JobFilter,
  matchesReason,
  matchesStatus,
  placesNamed,
} from "./job-filter.ts";
import type { FoundJob, JobLists } from "./job-lists.ts";
import type { JobEntry } from "./job-views.ts";

export interface FollowedPast {
  /** Events before the position, newest first, filtered as in `FollowedPage`. */
  readonly events: readonly FollowedEvent[];
  /** Start of the previous page; undefined if there are no older events. */
  readonly before: string | undefined;
}

/** Maximum number of events read per transaction. */
const PAGE_ROWS_MAX = 100;
/** Maximum number of events tested per page of past events. */
const TESTED_ROWS_MAX = 1000;

/** A filter for events. An event must match all members that are set. */
export interface EventFilter extends JobFilter {
  /** Kinds of changes. The event must report at least one of them. */
  readonly kinds?: readonly JobChangeName[];
  /** Name, id or replication id of the job. */
  readonly job?: string;
  /** Rule that created the job. */
  readonly ruleName?: string;
  /** Host of the job's source or target, or name of a local database. */
  readonly endpoint?: string;
}

export interface FollowedEvent extends LoggedEvent {
  /** The job as it is now; undefined if it was removed. */
  readonly entry: JobEntry | undefined;
  /** The job before its removal, if it was removed. */
  readonly former: FormerJob | undefined;
  /** Whether the job matches the filter now. If false, it matched before the event. */
  readonly isMatch: boolean;
}

export interface FollowedPage {
  /**
   * Events after the position, oldest first, of jobs that match now or matched before the event.
   */
  readonly events: readonly FollowedEvent[];
  /** Start of the next page; undefined if there are no more events yet. */
  readonly next: string | undefined;
  /** Whether matching events might be missing because they were deleted. */
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
  async page(afterId: string, filter: EventFilter): Promise<FollowedPage> {
    const { kv, log } = this.#parts;
    const page = await kv.read((tx) => log.page(tx, afterId, PAGE_ROWS_MAX));
    const { events, forgottenId } = page;
    return {
      events: await followedEvents(this.#parts, events, filter),
      next: events.at(-1)?.id ?? forgottenId,
      isGap: forgottenId !== undefined,
    };
  }

  /**
   * Returns up to `limit` events before a position, or the latest events if no position is given.
   * Returns fewer if too many events would have to be tested. Throws REPLICATOR_EVENT_INVALID.
   */
  async past(
    beforeId: string | undefined,
    limit: number,
    filter: EventFilter,
  ): Promise<FollowedPast> {
    const { kv, log } = this.#parts;
    const found: FollowedEvent[] = [];
    let before = beforeId;
    for (let testedCount = 0; testedCount < TESTED_ROWS_MAX; testedCount += PAGE_ROWS_MAX) {
      const page = await kv.read((tx) => log.past(tx, before, PAGE_ROWS_MAX));
      const matching = await followedEvents(this.#parts, page.events, filter);
      const room = limit - found.length;
      append(found, matching.slice(0, room));
      if (matching.length > room) return { events: found, before: found.at(-1)?.id };
      before = page.events.at(-1)?.id;
      if (!page.hasOlder) return { events: found, before: undefined };
      if (found.length === limit) break;
    }
    return { events: found, before };
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

/** Selects events whose job matches the filter now, or matched it before the event. */
async function followedEvents(
  { kv, log, lists }: JobEventsParts,
  events: readonly LoggedEvent[],
  filter: EventFilter,
): Promise<readonly FollowedEvent[]> {
  const { kinds } = filter;
  const wanted = events.filter(({ changes }) =>
    kinds === undefined ? changes.length > 0 : changes.some((change) => kinds.includes(change)),
  );
  const ids = [...new Set(wanted.map(({ jobId }) => jobId))];
  const found = await lists.byId(ids);
  const gone = ids.filter((id) => !found.has(id));
  const former = gone.length === 0 ? undefined : await kv.read((tx) => log.formerJobs(tx, gone));
  return wanted.flatMap((event): FollowedEvent[] => {
    const { jobId } = event;
    const job = found.get(jobId);
    const subject = job === undefined ? former?.get(jobId) : named(job);
    const isMatch = job !== undefined && matchesNow(job, filter);
    if (!isMatch && !wasMatch(event, filter, subject)) return [];
    if (!isAbout(event, filter, subject)) return [];
    return [{ ...event, entry: job?.entry, former: job ? undefined : subject, isMatch }];
  });
}

function named({ entry, status }: FoundJob): FormerJob {
  const { jobId, data } = entry;
  return { name: jobName(jobId, data), rule: data.rule, status };
}

function matchesNow({ entry, status }: FoundJob, filter: EventFilter): boolean {
  return (
    isOfDatabase(entry.jobId, filter.databaseUuid) &&
    matchesStatus(filter, status, entry.state === "running") &&
    (filter.isCaughtUp !== true || isProvenCaughtUp(entry.backlog)) &&
    (filter.reason === undefined || matchesReason(filter.reason, entry.data))
  );
}

/**
 * Whether the job might have matched the filter before the event. Earlier run states and failure
 * reasons are unknown, so filters on them can let additional events through.
 */
function wasMatch(
  { jobId, before }: LoggedEvent,
  filter: EventFilter,
  subject: FormerJob | undefined,
): boolean {
  const status = before ?? subject?.status;
  if (status === undefined || !isOfDatabase(jobId, filter.databaseUuid)) return false;
  return matchesStatus(filter, status, true) || matchesStatus(filter, status, false);
}

/** Whether the job matches the filter's conditions on its name, rule and endpoints. */
function isAbout(
  { jobId }: LoggedEvent,
  { name, job, ruleName, endpoint }: EventFilter,
  subject: FormerJob | undefined,
): boolean {
  const shown = subject?.name ?? jobId;
  const { source = [], target = [], replicationId } = subject?.status ?? {};
  return (
    (name === undefined || name.glob.match(shown) !== undefined) &&
    (ruleName === undefined || subject?.rule === ruleName) &&
    (job === undefined || [shown, jobId, replicationId].includes(job)) &&
    (endpoint === undefined || isAmong(placesNamed(endpoint), [...source, ...target]))
  );
}
