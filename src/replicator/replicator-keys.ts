/** Keys of the replicator within its subspace. */
import {
  type Key,
  type KeyBounds,
  type KeyShape,
  type Keys,
  type KeysOf,
  keyRow,
  keyShapes,
  keyTable,
  type Subspace,
  type Versionstamp,
} from "../kv/index.ts";

/** The value by which a list of jobs is sorted or grouped. It is part of the list's keys. */
export type StatusValue = string | number | null;

type NoElements = Record<never, never>;

const ROWS = {
  replicationId: keyRow<{ replicationId: string }>(
    1,
    ["replicationId"],
    "(jobId)",
    "the job that runs a replication",
  ),
  failure: keyRow<{ baseId: string; idBytes: Uint8Array; digest: Uint8Array }>(
    2,
    ["baseId", "idBytes", "digest"],
    "(1, firstMs, lastMs, tries, json)",
    "a failed revision, by the first bytes of its id and the MD5 of id and revision",
  ),
  failureCount: keyRow<{ baseId: string; phase: string; status: number; error: string }>(
    3,
    ["baseId", "phase", "status", "error"],
    "(1, count)",
    "number of failures in the list with this phase, status and error; status 0: no HTTP status",
  ),
  failureRetry: keyRow<{ baseId: string }>(
    4,
    ["baseId"],
    "(1, request, ids)",
    "a request to retry all failed documents, or those with these ids (JSON); cleared after the retry; watched by waiting callers",
  ),
  budget: keyRow<{ name: string }>(
    5,
    ["name"],
    "(1, json)",
    "the budget of a host, or of an account on it",
  ),
  budgetReservation: keyRow<{ name: string; direction: string; unit: string }>(
    6,
    ["name", "direction", "unit"],
    "(1, timeMs)",
    "time until which the full capacity of this limit is reserved",
  ),
  budgetsChanged: keyRow<NoElements>(
    7,
    [],
    "counter",
    "incremented when a budget changes; watched by all nodes",
  ),
  jobControl: keyRow<{ jobId: string }>(
    8,
    ["jobId"],
    "(1, json)",
    "an operator's decision about a job, with its author",
  ),
  ownCheckpoint: keyRow<{ baseId: string }>(
    9,
    ["baseId"],
    "(1, json)",
    "replication log of a source that rejects writes, stored here instead",
  ),
  outage: keyRow<{ origin: string }>(
    10,
    ["origin"],
    "(1, probedAtMs, isConfirmed)",
    "an unreachable server, and the time of the last probe",
  ),
  outageMember: keyRow<{ origin: string; jobId: string }>(
    11,
    ["origin", "jobId"],
    "(1)",
    "a job that is due immediately when the server recovers",
  ),
  removedDatabase: keyRow<{ uuid: string }>(
    12,
    ["uuid"],
    '"1"',
    "a deleted `_replicator` database or rule; kept until its jobs have been removed",
  ),
  databasesRemoved: keyRow<NoElements>(
    13,
    [],
    "counter",
    "incremented when a `_replicator` database or a rule is deleted; watched by all nodes",
  ),
  failuresKept: keyRow<{ baseId: string }>(
    14,
    ["baseId"],
    "(1)",
    "every change before the checkpoint was copied or recorded as failed",
  ),
  abandoned: keyRow<{ baseId: string }>(
    15,
    ["baseId"],
    "(1, timeMs)",
    "a replication without jobs, and the time when a cleanup first noticed it",
  ),
  replicationJob: keyRow<{ replicationId: string; owner: string | null; jobId: string }>(
    16,
    ["replicationId", "owner", "jobId"],
    '""',
    "a job that requests a replication, and the owner of the job (a name, or `jwt:name`)",
  ),
  backlog: keyRow<{ jobId: string }>(
    21,
    ["jobId"],
    "(1, sinceMs, pending, seenMs)",
    "time since which changes are pending (null: none), and their number at the last check (null: unknown)",
  ),
  backlogRound: keyRow<NoElements>(
    22,
    [],
    "(1, beganMs, nextMs, null, jobId)",
    "the round that asks the sources of waiting jobs for pending changes: its start, the time of the next claim, and the last job scanned (null: the round is over)",
  ),
  jobRun: keyRow<{ jobId: string; number: number }>(
    23,
    ["jobId", "number"],
    "(1, json)",
    "one of the last runs of a job; the highest number is the newest",
  ),
  event: keyRow<{ versionstamp: Versionstamp }>(
    25,
    ["versionstamp"],
    "(1, timeMs, jobId, changes, before, after)",
    "an event of a job, with the job's status before and after (null: no job); routine events may be deleted once the index (50) includes them",
  ),
  lastEvent: keyRow<NoElements>(
    26,
    [],
    "versionstamp, 12 bytes",
    "id of the newest event (25); watched by followers of events",
  ),
  forgottenEvent: keyRow<NoElements>(
    27,
    [],
    "versionstamp, 12 bytes",
    "id of the event up to which routine events are deleted from the log (25)",
  ),
  node: keyRow<{ node: string }>(
    28,
    ["node"],
    "(1, json)",
    "report of a process that runs jobs; removed when it stops, or an hour after its last report",
  ),
  drain: keyRow<{ node: string }>(
    29,
    ["node"],
    '""',
    "request to drain a process; removed with its report (28)",
  ),
  drainsChanged: keyRow<NoElements>(
    30,
    [],
    "counter",
    "incremented when a drain order (29) is added or removed; watched by all nodes",
  ),
  alertTurn: keyRow<NoElements>(
    31,
    [],
    "(1, holder, untilMs, eventId)",
    "the node that sends alerts, the end of its lease, and the last processed event (25)",
  ),
  breach: keyRow<{ kind: string; jobId: string }>(
    32,
    ["kind", "jobId"],
    "(1, alertId, sinceMs, class, side, host, rule)",
    "a reported, ongoing breach of a limit",
  ),
  alert: keyRow<{ versionstamp: Versionstamp }>(
    33,
    ["versionstamp"],
    "(1, alertId, kind, status, breachId, jobId, timeMs, sinceMs, class, side, host, rule)",
    "an alert waiting to be sent",
  ),
  runRate: keyRow<{ startMs: number; node: string }>(
    37,
    ["startMs", "node"],
    "(1, starts, failures, documents)",
    "a process's run counts for one minute; deleted after an hour",
  ),
  parkedJob: keyRow<{ jobId: string }>(
    40,
    ["jobId"],
    "(1, source, database)",
    "source and database of a parked job (41)",
  ),
  watched: keyRow<{ source: string; database: string; jobId: string }>(
    41,
    ["source", "database", "jobId"],
    "(1, json)",
    "a parked job, with the update sequence of the database up to which it has copied",
  ),
  newlyParked: keyRow<{ source: string; versionstamp: Versionstamp }>(
    42,
    ["source", "versionstamp"],
    "(1, database, jobId)",
    "a parked job (41) that the source's watcher has not compared with the source yet",
  ),
  parkedChanged: keyRow<{ source: string }>(
    43,
    ["source"],
    "counter",
    "incremented with each parked job added under key 42; watched by the source's watcher",
  ),
  rule: keyRow<{ name: string }>(
    44,
    ["name"],
    "(1, uuid, generation, isSealed, bytes)",
    "a rule; the bytes are JSON, sealed if the server has a key (`isSealed`)",
  ),
  ruleDatabase: keyRow<{ uuid: string; database: string }>(
    45,
    ["uuid", "database"],
    "(1, generation, digest)",
    "a database with a job of the rule: the rule's generation when it last updated the job, and the digest of the security object last copied (null: none)",
  ),
  foldedEvent: keyRow<NoElements>(
    50,
    [],
    "versionstamp, 12 bytes",
    "id of the last event (25) that keys 51 and 52 include",
  ),
  statusRow: keyRow<{ list: string; value: StatusValue; jobId: string }>(
    51,
    ["list", "value", "jobId"],
    '""',
    "index of jobs by one property of their status; the value is a time (`since`, `cause-since …`, `ended`), a negated time (`behind`, `rule-behind …`), a number (`tries`), host, side and class of a failure between bars (`cause`), a host or, after a slash, a local database (`source`, `target`), or a rule's uuid and a flag (`rule`)",
  ),
  statusCount: keyRow<{ list: string; value: StatusValue; uuid: string | null }>(
    52,
    ["list", "value", "uuid"],
    "counter",
    "number of rows with this list and value under key 51; rows of the list `outcome` are counted per `_replicator` database (null: transient jobs); the list `all`, with value null, counts all jobs of a database",
  ),
  statusIndex: keyRow<NoElements>(
    53,
    [],
    "(5, jobId)",
    "the last job for which 50 to 52 are built (null: they are complete)",
  ),
  cleanUp: keyRow<NoElements>(
    54,
    [],
    "(1, beganMs, jobId, group)",
    "cluster-wide clean-up: its start, and the last job and group checked (null: none)",
  ),
  loginGate: keyRow<{ digest: Uint8Array }>(
    60,
    ["digest"],
    "json, sealed if the server has a key",
    "failed logins of an account at a server, by the MD5 of account and server; watched by runs that wait to log in",
  ),
  hazard: keyRow<{ jobId: string }>(
    61,
    ["jobId"],
    "(1, decision, deathCount, work)",
    "hazardous work of the current run (null between runs), and nodes crashed by such work since the operator's last decision",
  ),
  haltedRun: keyRow<{ worker: string; jobId: string; lock: string }>(
    62,
    ["worker", "jobId", "lock"],
    "(1, replicationId)",
    "a run whose job was removed; kept until the worker has ended the run; replicationId is null if the run has not begun",
  ),
  haltedReplication: keyRow<{ replicationId: string; worker: string; jobId: string; lock: string }>(
    63,
    ["replicationId", "worker", "jobId", "lock"],
    '""',
    "index of key 62 by replication; while a replication has a row here, no other run of it begins",
  ),
  haltsChanged: keyRow<NoElements>(
    64,
    [],
    "counter",
    "incremented with each change of key 62; watched by workers and waiting callers",
  ),
  command: keyRow<{ id: string }>(
    65,
    ["id"],
    "(1, json)",
    "a command for many jobs, and its progress; the id begins with the time of its start; deleted after a week",
  ),
  commandPage: keyRow<{ id: string; page: number }>(
    66,
    ["id", "page"],
    "(1, json)",
    "ids of the jobs that a command has selected, in the order in which they are processed",
  ),
  alertState: keyRow<NoElements>(
    67,
    [],
    "(1, json)",
    "outcome of the latest alert deliveries; watched by callers that wait for a test alert",
  ),
  gatedAccount: keyRow<{ digest: Uint8Array }>(
    68,
    ["digest"],
    "json, sealed if the server has a key",
    "name of a rejected account (60), and the server's error",
  ),
  commandSecret: keyRow<{ id: string }>(
    69,
    ["id"],
    "json, sealed if the server has a key",
    "new credentials, kept until the command (65) ends",
  ),
  keptEvents: keyRow<NoElements>(
    70,
    [],
    "(1, bytes)",
    "size of the thinned part of the log (25, 27)",
  ),
  formerJob: keyRow<{ jobId: string }>(
    71,
    ["jobId"],
    "(1, timeMs, name, rule, status)",
    "a removed job to which events refer; deleted with the event of its removal",
  ),
  silentSource: keyRow<{ source: string }>(
    72,
    ["source"],
    "(1)",
    "a source of parked jobs that does not respond",
  ),
  chainWait: keyRow<{ jobId: string; name: string }>(
    73,
    ["jobId", "name"],
    "(1)",
    "`jobId` waits for the job named `name` (`after`)",
  ),
  chainWaiter: keyRow<{ name: string; jobId: string }>(
    74,
    ["name", "jobId"],
    "(1, owner, seesAll, count)",
    "index of key 73 by name, with the waiting job's rights, and the count (75) when the wait began",
  ),
  chainReached: keyRow<{ name: string }>(
    75,
    ["name"],
    "(1, count)",
    "number of times that the job with this name completed or caught up while others waited for it",
  ),
};

/** Key numbers of the job index in older versions. */
const OLDER_INDEX = { first: 17, last: 20 };

export const REPLICATOR_KEY_SHAPES: readonly KeyShape[] = [
  ...keyShapes(ROWS),
  {
    key: "(17 … 20)",
    value: "—",
    note: "the index of jobs of older versions; removed when 51 to 53 are built",
  },
];

export type ReplicatorKeys = KeysOf<typeof ROWS>;

export const replicatorKeys: (replicator: Subspace) => ReplicatorKeys = keyTable(ROWS);

/** Returns the range of all keys of older job indexes. */
export function olderIndex(replicator: Subspace): KeyBounds {
  const { begin } = replicator.range([OLDER_INDEX.first]);
  return { begin, end: replicator.pack([OLDER_INDEX.last + 1]) };
}

/**
 * Returns the range of the full ids with this base id: the base id itself, and the base id with
 * suffixes, which begin with a plus.
 */
export function idsOfBase(
  keys: Keys<{ replicationId: string }> | ReplicatorKeys["replicationJob"],
  baseId: string,
): KeyBounds {
  return {
    begin: keys.prefixKey({ replicationId: baseId }),
    end: keys.prefixKey({ replicationId: `${baseId},` }),
  };
}

/**
 * Returns the range of counters whose values begin with this ASCII prefix, which must not be empty.
 */
export function statusCountsBelow(
  { statusCount }: ReplicatorKeys,
  list: string,
  prefix: string,
): KeyBounds {
  const last = prefix.charCodeAt(prefix.length - 1);
  const after = prefix.slice(0, -1) + String.fromCharCode(last + 1);
  const keyOf = (value: string): Key => statusCount.prefixKey({ list, value });
  return { begin: keyOf(prefix), end: keyOf(after) };
}

/** Returns the range of rows whose values begin with this text, which must not be empty. */
export function statusRowsBelow(
  { statusRow }: ReplicatorKeys,
  list: string,
  text: string,
): KeyBounds {
  return {
    begin: statusRow.prefixKey({ list, value: text }),
    end: statusRow.prefixKey({ list, value: `${text}\u{10ffff}` }),
  };
}

/** A halted run, identified by its lock. */
export interface HaltedRun {
  readonly worker: string;
  readonly jobId: string;
  readonly lock: string;
}

/** Key of a failure counter. */
export interface FailureKind {
  readonly phase: string;
  /** HTTP status of the failure; 0 if it has none. */
  readonly status: number;
  readonly error: string;
}
