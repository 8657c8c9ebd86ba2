/** Keys of the replicator within its subspace. */
import {
  type Key,
  type KeyRange,
  type KeyShape,
  keyAfter,
  type Subspace,
  Versionstamp,
  type VersionstampedBytes,
} from "../kv/index.ts";

const REPLICATION_ID = 1;
const FAILURE = 2;
const FAILURE_COUNT = 3;
const FAILURE_RETRY = 4;
const BUDGET = 5;
const BUDGET_RESERVATION = 6;
const BUDGETS_CHANGED = 7;
const JOB_CONTROL = 8;
const OWN_CHECKPOINT = 9;
const OUTAGE = 10;
const OUTAGE_MEMBER = 11;
const REMOVED_DATABASE = 12;
const DATABASES_REMOVED = 13;
const FAILURES_KEPT = 14;
const ABANDONED = 15;
const REPLICATION_JOB = 16;
/** 17 to 20: the index of older versions. */
const OLDER_INDEX = { first: 17, last: 20 };
const BACKLOG = 21;
const BACKLOG_ROUND = 22;
const JOB_RUN = 23;
const EVENT = 25;
const LAST_EVENT = 26;
const FORGOTTEN_EVENT = 27;
const NODE = 28;
const DRAIN = 29;
const DRAINS_CHANGED = 30;
const ALERT_TURN = 31;
const BREACH = 32;
const ALERT = 33;
const RUN_RATE = 37;
const PARKED_JOB = 40;
const WATCHED = 41;
const NEWLY_PARKED = 42;
const PARKED_CHANGED = 43;
const RULE = 44;
const RULE_DATABASE = 45;
const FOLDED_EVENT = 50;
const STATUS_ROW = 51;
const STATUS_COUNT = 52;
const STATUS_INDEX = 53;
const CLEAN_UP = 54;
const LOGIN_GATE = 60;
const HAZARD = 61;
const HALTED_RUN = 62;
const HALTED_REPLICATION = 63;
const HALTS_CHANGED = 64;

export const REPLICATOR_KEY_SHAPES: readonly KeyShape[] = [
  {
    key: "(1, replicationId)",
    value: "(jobId)",
    note: "the job that runs a replication",
  },
  {
    key: "(2, baseId, idBytes, digest)",
    value: "(1, firstMs, lastMs, tries, json)",
    note: "a failed revision, by the first bytes of its id and the MD5 of id and revision",
  },
  {
    key: "(3, baseId, phase, status, error)",
    value: "(1, count)",
    note: "number of such failures in the list; status 0: no HTTP status",
  },
  {
    key: "(4, baseId)",
    value: "(1, request, ids)",
    note: "a request to retry the list, or these ids (JSON); cleared once served; watched by waiting callers",
  },
  {
    key: "(5, name)",
    value: "(1, json)",
    note: "the budget of a host, or of an account at it",
  },
  {
    key: "(6, name, direction, unit)",
    value: "(1, timeMs)",
    note: "time until which this limit of the budget is reserved",
  },
  {
    key: "(7)",
    value: "counter",
    note: "grows when a budget changes; watched by all nodes",
  },
  {
    key: "(8, jobId)",
    value: "(1, json)",
    note: "an operator's decision about a job, with its author",
  },
  {
    key: "(9, baseId)",
    value: "(1, json)",
    note: "the source's replication log, for a source that rejects it",
  },
  {
    key: "(10, origin)",
    value: "(1, probedAtMs, isConfirmed)",
    note: "an unreachable server, and the time of the last probe",
  },
  {
    key: "(11, origin, jobId)",
    value: "(1)",
    note: "a job that is due immediately when the server recovers",
  },
  {
    key: "(12, uuid)",
    value: '"1"',
    note: "a `_replicator` database or a rule that was deleted, while it still has jobs",
  },
  {
    key: "(13)",
    value: "counter",
    note: "grows when a `_replicator` database or a rule is deleted; watched by all nodes",
  },
  {
    key: "(14, baseId)",
    value: "(1)",
    note: "all changes before the checkpoint have arrived or are on the list of failures",
  },
  {
    key: "(15, baseId)",
    value: "(1, timeMs)",
    note: "a replication without jobs, and the time of the first check of the mark",
  },
  {
    key: "(16, replicationId, owner, jobId)",
    value: '""',
    note: "a job that wants a replication, by its owner (a name, or `jwt:name`)",
  },
  {
    key: "(17 … 20)",
    value: "—",
    note: "the index of jobs of older versions; removed when 51 to 53 are built",
  },
  {
    key: "(21, jobId)",
    value: "(1, sinceMs, pending, seenMs)",
    note: "since when changes are pending (null: none), and their number at the last check (null: unknown)",
  },
  {
    key: "(22)",
    value: "(1, beganMs, nextMs, null, jobId)",
    note: "round that asks the sources of waiting jobs for pending changes: its start, the due time of the next jobs, and the last job (null: the round is over)",
  },
  {
    key: "(23, jobId, number)",
    value: "(1, json)",
    note: "one of the last runs of a job; the highest number is the newest",
  },
  {
    key: "(25, versionstamp)",
    value: "(1, timeMs, jobId, changes, before, after)",
    note: "an event of a job, with its statuses before and after (null: no job); deleted after a while, and not before 50",
  },
  {
    key: "(26)",
    value: "versionstamp, 12 bytes",
    note: "the newest row of 25; watched by followers of events",
  },
  {
    key: "(27)",
    value: "versionstamp, 12 bytes",
    note: "the newest deleted row of 25",
  },
  {
    key: "(28, node)",
    value: "(1, json)",
    note: "report of a process that runs jobs; removed when it stops, or an hour after its last report",
  },
  {
    key: "(29, node)",
    value: '""',
    note: "drain order for a process; removed with its row of 28",
  },
  {
    key: "(30)",
    value: "counter",
    note: "grows when an order adds or removes a row of 29; watched by all nodes",
  },
  {
    key: "(31)",
    value: "(1, holder, untilMs, eventId)",
    note: "the node that sends alerts, the end of its turn, and the last processed row of 25",
  },
  {
    key: "(32, kind, jobId)",
    value: "(1, alertId, sinceMs)",
    note: "a reported, ongoing breach",
  },
  {
    key: "(33, versionstamp)",
    value: "(1, alertId, kind, status, breachId, jobId, timeMs)",
    note: "an alert waiting to be sent",
  },
  {
    key: "(37, startMs, node)",
    value: "(1, starts, failures, documents)",
    note: "counts of a process's runs in this minute; deleted after an hour",
  },
  {
    key: "(40, jobId)",
    value: "(1, source, database)",
    note: "the job is parked, and has a row in 41",
  },
  {
    key: "(41, source, database, jobId)",
    value: "(1, json)",
    note: "a parked job, with the update sequence of this database up to which it has copied",
  },
  {
    key: "(42, source, versionstamp)",
    value: "(1, database, jobId)",
    note: "a row of 41 that the watcher of the source has not compared yet",
  },
  {
    key: "(43, source)",
    value: "counter",
    note: "grows with each row of 42; watched by the watcher of the source",
  },
  {
    key: "(44, name)",
    value: "(1, uuid, generation, isSealed, bytes)",
    note: "a rule; the bytes are JSON, and sealed where secrets are",
  },
  {
    key: "(45, uuid, database)",
    value: "(1, generation, digest)",
    note: "a database with a job of the rule: the generation that last changed it, and the digest of the last security object copied, or null",
  },
  {
    key: "(50)",
    value: "versionstamp, 12 bytes",
    note: "last row of 25 that is applied to 51 and 52",
  },
  {
    key: "(51, list, value, jobId)",
    value: '""',
    note: "index of jobs by one property of their status; the value is a time (`since`, `cause-since …`, `ended`), a negated time (`behind`, `rule-behind …`), a number (`tries`), host, side and class of a failure between bars (`cause`), a host or, after a slash, a local database (`source`, `target`), or a rule's uuid and a flag (`rule`)",
  },
  {
    key: "(52, list, value, uuid)",
    value: "counter",
    note: "number of rows in 51; for the list `outcome` by `_replicator` database, null for transient jobs; for `all`, with value null: number of jobs of a database",
  },
  {
    key: "(53)",
    value: "(4, jobId)",
    note: "50 to 52 are built for jobs up to this one; null: for all",
  },
  {
    key: "(54)",
    value: "(1, beganMs, jobId, group)",
    note: "cluster-wide clean-up: its start, and the last job and group checked (null: none)",
  },
  {
    key: "(60, digest)",
    value: "json, sealed where secrets are",
    note: "failed logins of an account at a server, by the MD5 of both; watched by runs that wait to log in",
  },
  {
    key: "(61, jobId)",
    value: "(1, decision, deathCount, work)",
    note: "hazardous work of a run in progress (null between runs); deathCount: nodes that crashed during it since that decision of an operator",
  },
  {
    key: "(62, worker, jobId, lock)",
    value: "(1, replicationId)",
    note: "a run whose job was removed, until its worker has ended it; null: it has not begun",
  },
  {
    key: "(63, replicationId, worker, jobId, lock)",
    value: '""',
    note: "the same runs by replication: no other run of it begins before",
  },
  {
    key: "(64)",
    value: "counter",
    note: "grows with each change of 62; watched by workers and waiting callers",
  },
];

/** A run of a job, identified by its lock. */
export interface HaltedRun {
  readonly worker: string;
  readonly jobId: string;
  readonly lock: string;
}

/** Kind of failure for counters. */
export interface FailureKind {
  readonly phase: string;
  /** HTTP status, or 0. */
  readonly status: number;
  readonly error: string;
}

/** A range between two keys. */
export interface KeyBounds {
  readonly begin: Key;
  readonly end: Key;
}

/** Value by which a list of jobs is ordered or divided. */
export type StatusValue = string | number | null;

export class ReplicatorKeys {
  readonly #replicator: Subspace;

  constructor(replicator: Subspace) {
    this.#replicator = replicator;
  }

  replicationId(replicationId: string): Key {
    return this.#replicator.pack([REPLICATION_ID, replicationId]);
  }

  /** `owner` is the result of `ownerKey`. */
  replicationJob(replicationId: string, owner: string | null, jobId: string): Key {
    return this.#replicator.pack([REPLICATION_JOB, replicationId, owner, jobId]);
  }

  replicationJobs(replicationId: string): KeyRange {
    return this.#replicator.range([REPLICATION_JOB, replicationId]);
  }

  replicationJobsOf(replicationId: string, owner: string | null): KeyRange {
    return this.#replicator.range([REPLICATION_JOB, replicationId, owner]);
  }

  replicationJobId(key: Key): string {
    return String(this.#replicator.unpack(key)[3]);
  }

  failure(baseId: string, idBytes: Uint8Array, digest: Uint8Array): Key {
    return this.#replicator.pack([FAILURE, baseId, idBytes, digest]);
  }

  /** Failures whose keys contain exactly these bytes of the id. */
  failuresOf(baseId: string, idBytes: Uint8Array): { readonly begin: Key; readonly end: Key } {
    return this.#replicator.range([FAILURE, baseId, idBytes]);
  }

  failures(baseId: string): { readonly begin: Key; readonly end: Key } {
    return this.#replicator.range([FAILURE, baseId]);
  }

  failureCount(baseId: string, { phase, status, error }: FailureKind): Key {
    return this.#replicator.pack([FAILURE_COUNT, baseId, phase, status, error]);
  }

  failureCounts(baseId: string): { readonly begin: Key; readonly end: Key } {
    return this.#replicator.range([FAILURE_COUNT, baseId]);
  }

  failureKind(key: Key): FailureKind {
    const [phase, status, error] = this.#replicator.unpack(key).slice(2);
    return { phase: String(phase), status: Number(status), error: String(error) };
  }

  failureRetry(baseId: string): Key {
    return this.#replicator.pack([FAILURE_RETRY, baseId]);
  }

  failuresKept(baseId: string): Key {
    return this.#replicator.pack([FAILURES_KEPT, baseId]);
  }

  /** The full ids with this base id: itself, and those with suffixes (each after a plus). */
  replicationIdsOf(baseId: string): KeyRange {
    return {
      begin: this.#replicator.pack([REPLICATION_ID, baseId]),
      end: this.#replicator.pack([REPLICATION_ID, `${baseId},`]),
    };
  }

  abandoned(): KeyRange {
    return this.#replicator.range([ABANDONED]);
  }

  abandonedMark(baseId: string): Key {
    return this.#replicator.pack([ABANDONED, baseId]);
  }

  abandonedBaseId(key: Key): string {
    return String(this.#replicator.unpack(key)[1]);
  }

  budget(name: string): Key {
    return this.#replicator.pack([BUDGET, name]);
  }

  budgets(): { readonly begin: Key; readonly end: Key } {
    return this.#replicator.range([BUDGET]);
  }

  budgetName(key: Key): string {
    return String(this.#replicator.unpack(key)[1]);
  }

  budgetReservation(name: string, direction: string, unit: string): Key {
    return this.#replicator.pack([BUDGET_RESERVATION, name, direction, unit]);
  }

  budgetReservations(name: string): { readonly begin: Key; readonly end: Key } {
    return this.#replicator.range([BUDGET_RESERVATION, name]);
  }

  budgetsChanged(): Key {
    return this.#replicator.pack([BUDGETS_CHANGED]);
  }

  ownCheckpoint(baseId: string): Key {
    return this.#replicator.pack([OWN_CHECKPOINT, baseId]);
  }

  outage(origin: string): Key {
    return this.#replicator.pack([OUTAGE, origin]);
  }

  outages(): KeyRange {
    return this.#replicator.range([OUTAGE]);
  }

  outageOrigin(key: Key): string {
    return String(this.#replicator.unpack(key)[1]);
  }

  outageMember(origin: string, jobId: string): Key {
    return this.#replicator.pack([OUTAGE_MEMBER, origin, jobId]);
  }

  outageMembers(origin: string): KeyRange {
    return this.#replicator.range([OUTAGE_MEMBER, origin]);
  }

  outageJobId(key: Key): string {
    return String(this.#replicator.unpack(key)[2]);
  }

  jobControl(jobId: string): Key {
    return this.#replicator.pack([JOB_CONTROL, jobId]);
  }

  removedDatabase(uuid: string): Key {
    return this.#replicator.pack([REMOVED_DATABASE, uuid]);
  }

  removedDatabases(): KeyRange {
    return this.#replicator.range([REMOVED_DATABASE]);
  }

  removedDatabaseUuid(key: Key): string {
    return String(this.#replicator.unpack(key)[1]);
  }

  databasesRemoved(): Key {
    return this.#replicator.pack([DATABASES_REMOVED]);
  }

  /** Jobs that want a replication with this base id. */
  replicationJobsBelow(baseId: string): KeyRange {
    return {
      begin: this.#replicator.pack([REPLICATION_JOB, baseId]),
      end: this.#replicator.pack([REPLICATION_JOB, `${baseId},`]),
    };
  }

  /** All keys of indexes of older versions. */
  olderIndex(): KeyBounds {
    const { begin } = this.#replicator.range([OLDER_INDEX.first]);
    return { begin, end: this.#replicator.pack([OLDER_INDEX.last + 1]) };
  }

  statusRow(list: string, value: StatusValue, jobId: string): Key {
    return this.#replicator.pack([STATUS_ROW, list, value, jobId]);
  }

  /** The rows of a list, optionally with one value. */
  statusRows(list: string, value?: StatusValue): KeyBounds {
    const tuple = value === undefined ? [STATUS_ROW, list] : [STATUS_ROW, list, value];
    return this.#replicator.range(tuple);
  }

  statusOf(key: Key): { readonly value: StatusValue; readonly jobId: string } {
    const [, , value, jobId] = this.#replicator.unpack(key);
    return { value: value as StatusValue, jobId: String(jobId) };
  }

  statusCount(list: string, value: StatusValue, databaseUuid: string | null): Key {
    return this.#replicator.pack([STATUS_COUNT, list, value, databaseUuid]);
  }

  /** The counters of a list, optionally for one value. */
  statusCounts(list: string, value?: StatusValue): KeyBounds {
    const tuple = value === undefined ? [STATUS_COUNT, list] : [STATUS_COUNT, list, value];
    return this.#replicator.range(tuple);
  }

  /** Counters whose values begin with this ASCII prefix, which must not be empty. */
  statusCountsBelow(list: string, prefix: string): KeyBounds {
    const last = prefix.charCodeAt(prefix.length - 1);
    const behind = prefix.slice(0, -1) + String.fromCharCode(last + 1);
    const begin = this.#replicator.pack([STATUS_COUNT, list, prefix]);
    return { begin, end: this.#replicator.pack([STATUS_COUNT, list, behind]) };
  }

  countedValue(key: Key): StatusValue {
    return this.#replicator.unpack(key)[2] as StatusValue;
  }

  statusIndex(): Key {
    return this.#replicator.pack([STATUS_INDEX]);
  }

  foldedEvent(): Key {
    return this.#replicator.pack([FOLDED_EVENT]);
  }

  newEvent(userVersion: number): VersionstampedBytes {
    return this.#replicator.packVersionstamped([EVENT, Versionstamp.incomplete(userVersion)]);
  }

  event(versionstamp: Versionstamp): Key {
    return this.#replicator.pack([EVENT, versionstamp]);
  }

  events(): { readonly begin: Key; readonly end: Key } {
    return this.#replicator.range([EVENT]);
  }

  eventStamp(key: Key): Versionstamp {
    return this.#replicator.unpack(key)[1] as Versionstamp;
  }

  lastEvent(): Key {
    return this.#replicator.pack([LAST_EVENT]);
  }

  forgottenEvent(): Key {
    return this.#replicator.pack([FORGOTTEN_EVENT]);
  }

  hazard(jobId: string): Key {
    return this.#replicator.pack([HAZARD, jobId]);
  }

  haltedRun({ worker, jobId, lock }: HaltedRun): Key {
    return this.#replicator.pack([HALTED_RUN, worker, jobId, lock]);
  }

  haltedRuns(): KeyRange {
    return this.#replicator.range([HALTED_RUN]);
  }

  haltedReplication(replicationId: string, { worker, jobId, lock }: HaltedRun): Key {
    return this.#replicator.pack([HALTED_REPLICATION, replicationId, worker, jobId, lock]);
  }

  haltedReplications(replicationId: string): KeyRange {
    return this.#replicator.range([HALTED_REPLICATION, replicationId]);
  }

  /** Accepts keys of `haltedRun` and `haltedReplication`. */
  haltedRunOf(key: Key): HaltedRun {
    const [worker, jobId, lock] = this.#replicator.unpack(key).slice(-3);
    return { worker: String(worker), jobId: String(jobId), lock: String(lock) };
  }

  haltsChanged(): Key {
    return this.#replicator.pack([HALTS_CHANGED]);
  }

  loginGate(digest: Uint8Array): Key {
    return this.#replicator.pack([LOGIN_GATE, digest]);
  }

  loginGates(): KeyRange {
    return this.#replicator.range([LOGIN_GATE]);
  }

  cleanUp(): Key {
    return this.#replicator.pack([CLEAN_UP]);
  }

  alertTurn(): Key {
    return this.#replicator.pack([ALERT_TURN]);
  }

  breach(kind: string, jobId: string): Key {
    return this.#replicator.pack([BREACH, kind, jobId]);
  }

  breaches(kind: string): { readonly begin: Key; readonly end: Key } {
    return this.#replicator.range([BREACH, kind]);
  }

  breachedJob(key: Key): string {
    return String(this.#replicator.unpack(key)[2]);
  }

  newAlert(userVersion: number): VersionstampedBytes {
    return this.#replicator.packVersionstamped([ALERT, Versionstamp.incomplete(userVersion)]);
  }

  alerts(): { readonly begin: Key; readonly end: Key } {
    return this.#replicator.range([ALERT]);
  }

  parkedJob(jobId: string): Key {
    return this.#replicator.pack([PARKED_JOB, jobId]);
  }

  parkedJobId(key: Key): string {
    return String(this.#replicator.unpack(key)[1]);
  }

  watched(source: string, database: string, jobId: string): Key {
    return this.#replicator.pack([WATCHED, source, database, jobId]);
  }

  /** The rows of a source, optionally of one database. */
  watchedOf(source: string, database?: string): KeyRange {
    const tuple = database === undefined ? [WATCHED, source] : [WATCHED, source, database];
    return this.#replicator.range(tuple);
  }

  /** Start of the rows after this one. */
  behindWatched(source: string, database: string, jobId: string): Key {
    return keyAfter(this.watched(source, database, jobId));
  }

  watchedJob(key: Key): { readonly database: string; readonly jobId: string } {
    const [, , database, jobId] = this.#replicator.unpack(key);
    return { database: String(database), jobId: String(jobId) };
  }

  newlyParked(source: string, userVersion: number): VersionstampedBytes {
    const last = Versionstamp.incomplete(userVersion);
    return this.#replicator.packVersionstamped([NEWLY_PARKED, source, last]);
  }

  newlyParkedOf(source: string): { readonly begin: Key; readonly end: Key } {
    return this.#replicator.range([NEWLY_PARKED, source]);
  }

  parkedChanged(source: string): Key {
    return this.#replicator.pack([PARKED_CHANGED, source]);
  }

  rule(name: string): Key {
    return this.#replicator.pack([RULE, name]);
  }

  rules(): { readonly begin: Key; readonly end: Key } {
    return this.#replicator.range([RULE]);
  }

  ruleName(key: Key): string {
    return String(this.#replicator.unpack(key)[1]);
  }

  ruleDatabase(uuid: string, database: string): Key {
    return this.#replicator.pack([RULE_DATABASE, uuid, database]);
  }

  ruleDatabases(uuid: string): { readonly begin: Key; readonly end: Key } {
    return this.#replicator.range([RULE_DATABASE, uuid]);
  }

  ruleDatabaseName(key: Key): string {
    return String(this.#replicator.unpack(key)[2]);
  }

  backlog(jobId: string): Key {
    return this.#replicator.pack([BACKLOG, jobId]);
  }

  backlogRound(): Key {
    return this.#replicator.pack([BACKLOG_ROUND]);
  }

  jobRun(jobId: string, number: number): Key {
    return this.#replicator.pack([JOB_RUN, jobId, number]);
  }

  jobRuns(jobId: string): { readonly begin: Key; readonly end: Key } {
    return this.#replicator.range([JOB_RUN, jobId]);
  }

  node(id: string): Key {
    return this.#replicator.pack([NODE, id]);
  }

  nodes(): { readonly begin: Key; readonly end: Key } {
    return this.#replicator.range([NODE]);
  }

  nodeId(key: Key): string {
    return String(this.#replicator.unpack(key)[1]);
  }

  drain(id: string): Key {
    return this.#replicator.pack([DRAIN, id]);
  }

  drainsChanged(): Key {
    return this.#replicator.pack([DRAINS_CHANGED]);
  }

  runRate(startMs: number, id: string): Key {
    return this.#replicator.pack([RUN_RATE, startMs, id]);
  }

  runRatesFrom(startMs: number): KeyRange {
    const { end } = this.#replicator.range([RUN_RATE]);
    return { begin: this.#replicator.pack([RUN_RATE, startMs]), end };
  }

  runRatesBefore(startMs: number): { readonly begin: Key; readonly end: Key } {
    const { begin } = this.#replicator.range([RUN_RATE]);
    return { begin, end: this.#replicator.pack([RUN_RATE, startMs]) };
  }

  /** Start of the minute in a key of `runRate`. */
  runRateMinute(key: Key): number {
    return Number(this.#replicator.unpack(key)[1]);
  }

  jobRunNumber(key: Key): number {
    return Number(this.#replicator.unpack(key)[2]);
  }
}
