/** All keys of the queue, in its own subspace. */
import {
  Double,
  type Key,
  type KeyBounds,
  type KeyShape,
  type KeysOf,
  keyAfter,
  keyRow,
  keyShapes,
  keyTable,
  prefixEnd,
  type Subspace,
  type Versionstamp,
} from "../kv/index.ts";
import { toNumber } from "./group-record.ts";
import type { JobType } from "./job.ts";
import type { Queue } from "./labels.ts";
import type { Order } from "./standing.ts";
import type { WorkerId } from "./worker.ts";

type NoElements = Record<never, never>;

const ROWS = {
  typeTimeout: keyRow<{ type: JobType }>(
    1,
    ["type"],
    "(timeoutSec)",
    "a registered type; jobs of other types cannot be added",
  ),
  job: keyRow<{ type: JobType; id: string }>(
    2,
    ["type", "id"],
    "JobFacts",
    "lock, position in the activity order, schedule",
  ),
  data: keyRow<{ type: JobType; id: string; chunk: number }>(
    3,
    ["type", "id", "chunk"],
    "bytes",
    "the data as JSON, split into chunks",
  ),
  note: keyRow<{ type: JobType; id: string }>(
    3,
    ["type", "id"],
    "bytes",
    "the observer's record about the job; for a replication, its status as shown in lists",
  ),
  nextData: keyRow<{ type: JobType; id: string; chunk: number }>(
    4,
    ["type", "id", "chunk"],
    "bytes",
    "data given while the job was running; becomes the data of its next run",
  ),
  pending: keyRow<{ queue: Queue; scheduledAtSec: number; id: string }>(
    5,
    ["queue", "scheduledAtSec", "id"],
    '""',
    "jobs that have no group, by due time; a queue is a type, or (type, label, …) if labels are required",
  ),
  activity: keyRow<{ type: JobType; versionstamp: Versionstamp }>(
    6,
    ["type", "versionstamp"],
    "(id)",
    "running jobs by their last heartbeat",
  ),
  enqueued: keyRow<{ type: JobType }>(
    7,
    ["type"],
    "counter",
    "counter, incremented when a job enters the queue; watched by acceptors",
  ),
  membership: keyRow<NoElements>(
    8,
    [],
    "(versionstamp)",
    "the last change to the list of workers; watched",
  ),
  worker: keyRow<{ worker: WorkerId }>(
    9,
    ["worker"],
    "WorkerRecord",
    "the workers that may accept jobs",
  ),
  lease: keyRow<{ worker: WorkerId }>(
    10,
    ["worker"],
    "LeaseRecord",
    "number of renewals; watched by the other workers",
  ),
  expulsion: keyRow<{ worker: WorkerId }>(
    11,
    ["worker"],
    "(format)",
    "an expelled worker with jobs that have not been requeued",
  ),
  held: keyRow<{ worker: WorkerId; type: JobType; id: string }>(
    12,
    ["worker", "type", "id"],
    "8 random bytes",
    "running jobs by worker; a row is rewritten to notify the worker, which watches it",
  ),
  groupPending: keyRow<{ queue: Queue; group: string; scheduledAtSec: number; id: string }>(
    13,
    ["queue", "group", "scheduledAtSec", "id"],
    '""',
    "jobs of a group, by due time",
  ),
  place: keyRow<{ queue: Queue; group: string }>(
    14,
    ["queue", "group"],
    "Place",
    "position of the group in index 15 or 16",
  ),
  ready: keyRow<{ queue: Queue; generation: number; score: Double | null; group: string }>(
    15,
    ["queue", "generation", "score", "group"],
    '""',
    "groups with a due job, by generation and score; the score is null for a group without usage",
  ),
  later: keyRow<{ queue: Queue; dueAtSec: number; group: string }>(
    16,
    ["queue", "dueAtSec", "group"],
    '""',
    "groups whose jobs are all due later",
  ),
  standing: keyRow<{ type: JobType; group: string }>(
    17,
    ["type", "group"],
    "Standing",
    "shares and usage; kept when the group has no jobs",
  ),
  shares: keyRow<{ type: JobType; group: string }>(
    18,
    ["type", "group"],
    "(shares)",
    "groups whose number of shares differs from the default of 100",
  ),
  fairShare: keyRow<{ type: JobType }>(
    19,
    ["type"],
    "FairShare",
    "decay of usage; absent if it is the default",
  ),
  count: keyRow<{ type: JobType; state: number; group: string | null }>(
    20,
    ["type", "state", "group"],
    "counter",
    "number of jobs by state: 0 pending, 1 running, 2 finished; group null: all jobs of the type",
  ),
  request: keyRow<{ type: JobType; id: string; chunk: number }>(
    21,
    ["type", "id", "chunk"],
    "bytes",
    "the job's request as JSON, split into chunks; absent if the job was added without one",
  ),
  nextRequest: keyRow<{ type: JobType; id: string; chunk: number }>(
    22,
    ["type", "id", "chunk"],
    "bytes",
    "a request given while the job was running; becomes the request of its next run",
  ),
  groupLimit: keyRow<{ type: JobType; group: string }>(
    23,
    ["type", "group"],
    "(countMax)",
    "maximum number of jobs of a group that run at the same time",
  ),
  readyQueue: keyRow<{ type: JobType; group: string; queue: string[] }>(
    24,
    ["type", "group", "queue"],
    '""',
    "labelled queues in which index 15 lists the group",
  ),
  passed: keyRow<{ queue: Queue; group: string; dueAtSec: number }>(
    25,
    ["queue", "group", "dueAtSec"],
    "",
    "never stored; conflict key of jobs that enter a group's queue",
  ),
};

export const JOB_KEY_SHAPES: readonly KeyShape[] = keyShapes(ROWS);

export type JobKeys = KeysOf<typeof ROWS>;

export const jobKeys: (jobs: Subspace) => JobKeys = keyTable(ROWS);

/** Returns the range of the jobs of a type whose ids have this prefix. */
export function jobsBelow({ job }: JobKeys, type: JobType, prefix: string): KeyBounds {
  // Removes the terminator of the packed string, so that longer ids also match.
  const begin = job.key({ type, id: prefix }).subarray(0, -1);
  return { begin, end: prefixEnd(begin) };
}

/** Returns the range of the pending jobs of a type that have a group and require labels. */
export function labelledBelow({ groupPending }: JobKeys, type: JobType): KeyBounds {
  // Removes the terminator of the nested tuple, so that tuples with labels match.
  const begin = groupPending.prefixKey({ queue: [type] }).subarray(0, -1);
  return { begin, end: prefixEnd(begin) };
}

/** Returns the key of a ready group. */
export function readyKey(
  { ready }: JobKeys,
  queue: Queue,
  { generation, score }: Order,
  group: string,
): Key {
  // Pack even an integer as a double: in keys, all integers sort before all doubles.
  return ready.key({
    queue,
    generation,
    score: score === undefined ? null : new Double(score),
    group,
  });
}

/** Returns the group in a key made by `readyKey`. */
export function readyGroup({ ready }: JobKeys, key: Key): Order & { readonly group: string } {
  const { generation, score, group } = ready.unpack(key);
  return { generation, score: score === null ? undefined : toNumber(score), group };
}

/**
 * Returns the key range of the counters per group in one state, starting after the group `after`.
 */
export function countsOfGroups(
  { count }: JobKeys,
  type: JobType,
  state: number,
  after: string | undefined,
): KeyBounds {
  // Without `after`, start after the counter of the whole type, whose group is null.
  const begin = keyAfter(count.key({ type, state, group: after ?? null }));
  return { begin, end: count.range({ type, state }).end };
}
