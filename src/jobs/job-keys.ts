/** All keys of the queue, in its own subspace. */
import type { Key, Subspace, VersionstampedBytes } from "../kv/index.ts";
import { Double, type KeyShape, keyAfter, prefixEnd, Versionstamp } from "../kv/index.ts";
import { toNumber } from "./group-record.ts";
import type { JobName, JobType } from "./job.ts";
import type { Order } from "./standing.ts";
import type { WorkerId } from "./worker.ts";

const TYPE = 1;
const JOB = 2;
const DATA = 3;
const NEXT_DATA = 4;
const PENDING = 5;
const ACTIVITY = 6;
const ENQUEUED = 7;
const MEMBERSHIP = 8;
const WORKER = 9;
const LEASE = 10;
const EXPULSION = 11;
const HELD = 12;
const GROUP_PENDING = 13;
const PLACE = 14;
const READY = 15;
const LATER = 16;
const STANDING = 17;
const SHARES = 18;
const FAIR_SHARE = 19;
const COUNT = 20;
const REQUEST = 21;
const NEXT_REQUEST = 22;
const GROUP_LIMIT = 23;

/** Key shapes for `docs/keyspace.md`. */
export const JOB_KEY_SHAPES: readonly KeyShape[] = [
  {
    key: "(1, type)",
    value: "(timeoutSec)",
    note: "a registered type; jobs of other types cannot be added",
  },
  {
    key: "(2, type, id)",
    value: "JobFacts",
    note: "lock, position in the activity order, schedule",
  },
  { key: "(3, type, id, chunk)", value: "bytes", note: "the data as JSON, split into chunks" },
  {
    key: "(3, type, id)",
    value: "bytes",
    note: "the observer's record about the job; for a replication, its status as shown in lists",
  },
  {
    key: "(4, type, id, chunk)",
    value: "bytes",
    note: "data given while the job was running; becomes the data of its next run",
  },
  {
    key: "(5, type, scheduledAtSec, id)",
    value: '""',
    note: "the queue of jobs without a group, by due time",
  },
  {
    key: "(6, type, versionstamp)",
    value: "(id)",
    note: "running jobs by their last heartbeat",
  },
  {
    key: "(7, type)",
    value: "counter",
    note: "counter, incremented when a job enters the queue; watched by acceptors",
  },
  {
    key: "(8)",
    value: "(versionstamp)",
    note: "the last change to the list of workers; watched",
  },
  { key: "(9, worker)", value: "WorkerRecord", note: "the workers that may accept jobs" },
  {
    key: "(10, worker)",
    value: "LeaseRecord",
    note: "number of renewals; watched by the other workers",
  },
  {
    key: "(11, worker)",
    value: "(format)",
    note: "an expelled worker with jobs that have not been requeued",
  },
  {
    key: "(12, worker, type, id)",
    value: "8 random bytes",
    note: "running jobs by their worker; rewritten to notify the worker, which watches it",
  },
  {
    key: "(13, type, group, scheduledAtSec, id)",
    value: '""',
    note: "the queue of a group, by due time",
  },
  { key: "(14, type, group)", value: "Place", note: "position of the group in index 15 or 16" },
  {
    key: "(15, type, generation, score, group)",
    value: '""',
    note: "groups with a due job, lowest standing first; the score is null for a group without usage",
  },
  { key: "(16, type, dueAtSec, group)", value: '""', note: "groups whose jobs are all due later" },
  {
    key: "(17, type, group)",
    value: "Standing",
    note: "shares and usage; kept when the group has no jobs",
  },
  { key: "(18, type, group)", value: "(shares)", note: "groups whose shares are not 100" },
  { key: "(19, type)", value: "FairShare", note: "decay of usage; absent if it is the default" },
  {
    key: "(20, type, state, group)",
    value: "counter",
    note: "number of jobs by state: 0 pending, 1 running, 2 finished; group null: all jobs of the type",
  },
  {
    key: "(21, type, id, chunk)",
    value: "bytes",
    note: "the request as JSON, split into chunks; absent for a job that was added without a request",
  },
  {
    key: "(22, type, id, chunk)",
    value: "bytes",
    note: "a request given while the job was running; becomes the request of its next run",
  },
  {
    key: "(23, type, group)",
    value: "(countMax)",
    note: "maximum number of jobs of a group that run at the same time",
  },
];

/** Begin and end are keys, so that the range can be cleared. */
export type Range = { readonly begin: Key; readonly end: Key };

export class JobKeys {
  readonly #jobs: Subspace;

  constructor(jobs: Subspace) {
    this.#jobs = jobs;
  }

  typeTimeout(type: JobType): Key {
    return this.#jobs.pack([TYPE, type]);
  }

  typeTimeouts(): Range {
    return this.#jobs.range([TYPE]);
  }

  job({ type, id }: JobName): Key {
    return this.#jobs.pack([JOB, type, id]);
  }

  jobsOfType(type: JobType): Range {
    return this.#jobs.range([JOB, type]);
  }

  /** The jobs of a type whose ids have this prefix. */
  jobsBelow(type: JobType, prefix: string): Range {
    // Removes the terminator of the packed string, so that longer ids also match.
    const begin = this.job({ type, id: prefix }).subarray(0, -1);
    return { begin, end: prefixEnd(begin) };
  }

  data({ type, id }: JobName, chunk: number): Key {
    return this.#jobs.pack([DATA, type, id, chunk]);
  }

  dataChunks({ type, id }: JobName): Range {
    return this.#jobs.range([DATA, type, id]);
  }

  note({ type, id }: JobName): Key {
    return this.#jobs.pack([DATA, type, id]);
  }

  /** All notes of a type, interleaved with the data of its jobs. */
  notesOfType(type: JobType): Range {
    return this.#jobs.range([DATA, type]);
  }

  /** The job of a key made by `note`; undefined for a key made by `data`. */
  notedId(key: Key): string | undefined {
    const [, , id, chunk] = this.#jobs.unpack(key);
    return chunk === undefined ? (id as string) : undefined;
  }

  nextData({ type, id }: JobName, chunk: number): Key {
    return this.#jobs.pack([NEXT_DATA, type, id, chunk]);
  }

  nextDataChunks({ type, id }: JobName): Range {
    return this.#jobs.range([NEXT_DATA, type, id]);
  }

  request({ type, id }: JobName, chunk: number): Key {
    return this.#jobs.pack([REQUEST, type, id, chunk]);
  }

  requestChunks({ type, id }: JobName): Range {
    return this.#jobs.range([REQUEST, type, id]);
  }

  nextRequest({ type, id }: JobName, chunk: number): Key {
    return this.#jobs.pack([NEXT_REQUEST, type, id, chunk]);
  }

  nextRequestChunks({ type, id }: JobName): Range {
    return this.#jobs.range([NEXT_REQUEST, type, id]);
  }

  pending({ type, id }: JobName, scheduledAtSec: number): Key {
    return this.#jobs.pack([PENDING, type, scheduledAtSec, id]);
  }

  /** The part of the queue that is due at `dueBySec`, inclusive. */
  pendingUntil(type: JobType, dueBySec: number): Range {
    return {
      begin: this.#jobs.range([PENDING, type]).begin,
      end: this.#jobs.range([PENDING, type, dueBySec]).end,
    };
  }

  /** A pending job of a group. */
  groupPending({ type, id }: JobName, group: string, scheduledAtSec: number): Key {
    return this.#jobs.pack([GROUP_PENDING, type, group, scheduledAtSec, id]);
  }

  groupQueue(type: JobType, group: string): Range {
    return this.#jobs.range([GROUP_PENDING, type, group]);
  }

  /** The part of the group's queue that is due at `dueBySec`, inclusive. */
  groupPendingUntil(type: JobType, group: string, dueBySec: number): Range {
    return {
      begin: this.groupQueue(type, group).begin,
      end: this.#jobs.range([GROUP_PENDING, type, group, dueBySec]).end,
    };
  }

  /** Due time and id in a key of either queue. */
  queued(key: Key): { readonly scheduledAtSec: number; readonly id: string } {
    const [scheduledAtSec, id] = this.#jobs.unpack(key).slice(-2);
    return { scheduledAtSec: scheduledAtSec as number, id: id as string };
  }

  place(type: JobType, group: string): Key {
    return this.#jobs.pack([PLACE, type, group]);
  }

  ready(type: JobType, { generation, score }: Order, group: string): Key {
    // A score is always packed as a double, because integers and doubles sort separately.
    const sorted = score === undefined ? null : new Double(score);
    return this.#jobs.pack([READY, type, generation, sorted, group]);
  }

  readyGroups(type: JobType): Range {
    return this.#jobs.range([READY, type]);
  }

  readyGroup(key: Key): Order & { readonly group: string } {
    const [generation, score, group] = this.#jobs.unpack(key).slice(-3);
    return {
      generation: generation as number,
      score: score === null ? undefined : toNumber(score),
      group: group as string,
    };
  }

  later(type: JobType, dueAtSec: number, group: string): Key {
    return this.#jobs.pack([LATER, type, dueAtSec, group]);
  }

  laterGroups(type: JobType): Range {
    return this.#jobs.range([LATER, type]);
  }

  laterGroupsUntil(type: JobType, dueBySec: number): Range {
    return {
      begin: this.laterGroups(type).begin,
      end: this.#jobs.range([LATER, type, dueBySec]).end,
    };
  }

  laterGroup(key: Key): { readonly dueAtSec: number; readonly group: string } {
    const [dueAtSec, group] = this.#jobs.unpack(key).slice(-2);
    return { dueAtSec: dueAtSec as number, group: group as string };
  }

  standing(type: JobType, group: string): Key {
    return this.#jobs.pack([STANDING, type, group]);
  }

  shares(type: JobType, group: string): Key {
    return this.#jobs.pack([SHARES, type, group]);
  }

  groupLimit(type: JobType, group: string): Key {
    return this.#jobs.pack([GROUP_LIMIT, type, group]);
  }

  groupLimits(type: JobType): Range {
    return this.#jobs.range([GROUP_LIMIT, type]);
  }

  sharesOfType(type: JobType): Range {
    return this.#jobs.range([SHARES, type]);
  }

  fairShare(type: JobType): Key {
    return this.#jobs.pack([FAIR_SHARE, type]);
  }

  count(type: JobType, state: number, group: string | undefined): Key {
    return this.#jobs.pack([COUNT, type, state, group ?? null]);
  }

  /** Counters of one state by group, after `after`. */
  countsOfGroups(type: JobType, state: number, after: string | undefined): Range {
    const { end } = this.#jobs.range([COUNT, type, state]);
    // The counter of the whole type, whose last element is null, sorts before the counters of
    // groups.
    return { begin: keyAfter(this.count(type, state, after)), end };
  }

  activity(type: JobType, activity: Versionstamp): Key {
    return this.#jobs.pack([ACTIVITY, type, activity]);
  }

  newActivity(type: JobType, userVersion: number): VersionstampedBytes {
    return this.#jobs.packVersionstamped([ACTIVITY, type, Versionstamp.incomplete(userVersion)]);
  }

  activities(type: JobType): Range {
    return this.#jobs.range([ACTIVITY, type]);
  }

  /** The activity order up to `until`, inclusive. */
  activitiesUntil(type: JobType, until: Versionstamp): Range {
    return {
      begin: this.#jobs.range([ACTIVITY, type]).begin,
      end: this.#jobs.range([ACTIVITY, type, until]).end,
    };
  }

  enqueued(type: JobType): Key {
    return this.#jobs.pack([ENQUEUED, type]);
  }

  membership(): Key {
    return this.#jobs.pack([MEMBERSHIP]);
  }

  worker(id: WorkerId): Key {
    return this.#jobs.pack([WORKER, id]);
  }

  workers(): Range {
    return this.#jobs.range([WORKER]);
  }

  lease(id: WorkerId): Key {
    return this.#jobs.pack([LEASE, id]);
  }

  expulsion(id: WorkerId): Key {
    return this.#jobs.pack([EXPULSION, id]);
  }

  expulsions(): Range {
    return this.#jobs.range([EXPULSION]);
  }

  /**
   * A job in its worker's list. The value carries no information and changes each time the worker
   * is notified.
   */
  held(worker: WorkerId, { type, id }: JobName): Key {
    return this.#jobs.pack([HELD, worker, type, id]);
  }

  heldBy(worker: WorkerId): Range {
    return this.#jobs.range([HELD, worker]);
  }

  /** The job in a key made by `held`. */
  heldJob(key: Key): JobName {
    const [, , type, id] = this.#jobs.unpack(key);
    return { type: type as JobType, id: id as string };
  }

  /**
   * The last element of a key: the id in `job`, the versionstamp in `activity`, the type in
   * `typeTimeout`, the id in `worker` and `expulsion`, the group in `standing` and `shares`.
   */
  lastElement(key: Key): unknown {
    return this.#jobs.unpack(key).at(-1);
  }
}
