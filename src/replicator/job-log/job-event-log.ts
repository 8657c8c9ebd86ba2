/**
 * The log of job events in commit order (`GET /_tandem/events`). An event is written in the
 * transaction that changes the job, so the log is exact. An event contains the kind of change but
 * not the new state of the job: readers fetch the job, so that events agree with lists.
 *
 * Retention: after a while, the log is thinned (`thin`): routine events, such as those of a parked
 * job that wakes up, are deleted. Others are kept until they are too old or the log is too large
 * (`forget`).
 *
 * The job index lags behind the log (`index-tail.ts`). Events that change a job's status contain
 * the status before and after.
 */
import {
  type Clock,
  compareBytes,
  hexDecode,
  hexEncode,
  Notifier,
  OperationalError,
} from "../../base/index.ts";
import type { JobChangeName } from "../../contract/index.ts";
import {
  firstGreaterThan,
  type Key,
  type KeyValue,
  keyAfter,
  packTuple,
  type ReadTransaction,
  type Subspace,
  type Transaction,
  type TupleItem,
  unpackTuple,
  VERSIONSTAMP_BYTES,
  Versionstamp,
  type Watch,
} from "../../kv/index.ts";
import type { JobEvent } from "../jobs/job-data.ts";
import { decodeStatus, hasFlag, type JobStatus } from "../jobs/job-status.ts";
import { type ReplicatorKeys, replicatorKeys } from "../replicator-keys.ts";

/** Kinds of routine events: changes of healthy jobs. Each wake-up of a parked job logs several. */
const ROUTINE: ReadonlySet<unknown> = new Set<JobChangeName>([
  "started",
  "stopped",
  "parked",
  "behind",
  "caught_up",
  "changed",
]);

/** An event that a run adds to the job's history. */
type RunEvent = Pick<JobEvent, "type">;

export interface LoggedEvent {
  /** Position in the log: 24 hex digits, in commit order. */
  readonly id: string;
  readonly timeMs: number;
  readonly jobId: string;
  readonly changes: readonly JobChangeName[];
  /** Status before the event; undefined if the status is unchanged or the job is new. */
  readonly before: JobStatus | undefined;
}

/** A job's status before and after an event; undefined while the job does not exist. */
export interface StatusChange {
  readonly jobId: string;
  readonly before: JobStatus | undefined;
  readonly after: JobStatus | undefined;
}

/**
 * A status change with the stored forms of both statuses, which are kept because they are needed
 * repeatedly.
 */
export interface EncodedChange extends StatusChange {
  readonly encodedBefore: Uint8Array | undefined;
  readonly encodedAfter: Uint8Array | undefined;
}

/** A logged event with the status change that the index applies. */
export interface StatusEvent {
  readonly id: string;
  readonly change: StatusChange | undefined;
}

/** A removed job whose events are still kept. */
export interface FormerJob {
  readonly name: string;
  readonly rule: string | undefined;
  /** Undefined if the job was removed before an older store was indexed. */
  readonly status: JobStatus | undefined;
}

export interface EventPage {
  readonly events: readonly LoggedEvent[];
  /**
   * Position up to which the log is thinned out, if it is after the requested position. Events
   * before it might be missing.
   */
  readonly forgottenId: string | undefined;
}

export interface PastEvents {
  /** Events before the requested position, newest first. */
  readonly events: readonly LoggedEvent[];
  /** Whether there are older events. */
  readonly hasOlder: boolean;
}

/** Maximum number of events thinned or deleted per transaction. */
const FORGOTTEN_COUNT_MAX = 1000;
/** Format version, stored as the first element. */
const FORMAT = 1;
/** Id that precedes the ids of all events. */
const BEFORE_ALL = new Uint8Array(VERSIONSTAMP_BYTES);

/** Members of a removed job's status that no longer apply. */
const NOTHING_PENDING = {
  hasLeftBehind: false,
  behindSinceMs: undefined,
  isUnread: false,
} as const;

/** Number of events written by this process after which `written` is notified. */
const ANNOUNCED_EVENTS = 100;

export class JobEventLog {
  /** Notified initially, and after every `ANNOUNCED_EVENTS` events written by this process. */
  readonly written = new Notifier();
  readonly #clock: Clock;
  readonly #keys: ReplicatorKeys;
  #writtenCount = 0;

  constructor(clock: Clock, subspace: Subspace) {
    this.#clock = clock;
    this.#keys = replicatorKeys(subspace);
    this.written.notify();
  }

  /** Records a status change. Equal statuses yield no event. */
  noteStatus(tx: Transaction, change: EncodedChange): void {
    this.#append(tx, change.jobId, changesBetween(change), change);
  }

  /** Records a status change without notifying followers. */
  noteSilently(tx: Transaction, change: EncodedChange): void {
    this.#append(tx, change.jobId, [], change);
  }

  /** Records the start or end of a run, as events of the job's history. */
  noteRun(tx: Transaction, jobId: string, events: readonly RunEvent[]): void {
    const changes = events.flatMap(({ type }) => (type === "pending" ? [] : [type]));
    this.#append(tx, jobId, changes);
  }

  /** Records that a run ended without a report, because its node died or the run lost the job. */
  noteLost(tx: Transaction, jobId: string): void {
    this.#append(tx, jobId, ["lost"]);
  }

  /** Records the name of a job that is being removed. `status` is the job's encoded status. */
  noteFormer(
    tx: Transaction,
    jobId: string,
    { name, rule, status }: Omit<FormerJob, "status"> & { readonly status: Uint8Array | undefined },
  ): void {
    const timeMs = Math.floor(this.#clock.nowMs());
    const value = packTuple([FORMAT, timeMs, name, rule ?? null, status ?? null]);
    tx.set(this.#keys.formerJob.key({ jobId }), value);
  }

  /** Returns the removed jobs among `jobIds`, by id. */
  async formerJobs(
    tx: ReadTransaction,
    jobIds: readonly string[],
  ): Promise<ReadonlyMap<string, FormerJob>> {
    const rows = await tx.snapshot.getMany(jobIds.map((jobId) => this.#formerKey(jobId)));
    return new Map(
      jobIds.flatMap((jobId, index) => {
        const row = rows[index];
        return row === undefined ? [] : [[jobId, decodeFormer(row)] as const];
      }),
    );
  }

  #formerKey(jobId: string): Key {
    return this.#keys.formerJob.key({ jobId });
  }

  #append(
    tx: Transaction,
    jobId: string,
    changes: readonly JobChangeName[],
    change?: EncodedChange,
  ): void {
    const userVersion = tx.nextUserVersion();
    const timeMs = Math.floor(this.#clock.nowMs());
    const statuses =
      change === undefined ? [] : [change.encodedBefore ?? null, change.encodedAfter ?? null];
    const value = packTuple([FORMAT, timeMs, jobId, changes.join(), ...statuses]);
    tx.setVersionstampedKey(this.#keys.event.newKey({}, userVersion), value);
    const last = Versionstamp.incomplete(userVersion);
    tx.setVersionstampedValue(this.#keys.lastEvent.key({}), { bytes: last.bytes, offset: 0 });
    tx.afterCommit(() => this.#count());
  }

  #count(): void {
    this.#writtenCount++;
    if (this.#writtenCount % ANNOUNCED_EVENTS === 0) this.written.notify();
  }

  /** Returns events after a position, oldest first. Throws REPLICATOR_EVENT_INVALID. */
  async page(tx: ReadTransaction, afterId: string, limit: number): Promise<EventPage> {
    const after = parseEventId(afterId);
    const thinned = await this.#thinned(tx.snapshot);
    const isGap = compareBytes(after.bytes, thinned.bytes) < 0;
    const { end } = this.#keys.event.range();
    const versionstamp = isGap ? thinned : after;
    const begin = firstGreaterThan(this.#keys.event.key({ versionstamp }));
    const { entries } = await tx.snapshot.getRangePage({ begin, end }, { limit });
    return {
      events: entries.map(({ key, value }) =>
        decodeEvent(this.#keys.event.unpack(key).versionstamp, value),
      ),
      forgottenId: isGap ? hexEncode(thinned.bytes) : undefined,
    };
  }

  /** Returns events before a position, or the latest events. Throws REPLICATOR_EVENT_INVALID. */
  async past(
    tx: ReadTransaction,
    beforeId: string | undefined,
    limit: number,
  ): Promise<PastEvents> {
    const all = this.#keys.event.range();
    const end =
      beforeId === undefined
        ? all.end
        : this.#keys.event.key({ versionstamp: parseEventId(beforeId) });
    const range = { begin: all.begin, end };
    const { entries } = await tx.snapshot.getRangePage(range, { limit: limit + 1, reverse: true });
    const events = entries.map(({ key, value }) =>
      decodeEvent(this.#keys.event.unpack(key).versionstamp, value),
    );
    return { events: events.slice(0, limit), hasOlder: events.length > limit };
  }

  /** Returns the status changes after `afterId` up to `lastId`, oldest first, at most `limit`. */
  async statusEvents(
    tx: ReadTransaction,
    afterId: string,
    lastId: string,
    limit?: number,
  ): Promise<readonly StatusEvent[]> {
    const begin = keyAfter(this.#keys.event.key({ versionstamp: parseEventId(afterId) }));
    const end = keyAfter(this.#keys.event.key({ versionstamp: parseEventId(lastId) }));
    const found: StatusEvent[] = [];
    for await (const { key, value } of tx.snapshot.getRange(
      { begin, end },
      limit === undefined ? {} : { limit },
    )) {
      const id = hexEncode(this.#keys.event.unpack(key).versionstamp.bytes);
      found.push({ id, change: decodeChange(value) });
    }
    return found;
  }

  /** Returns the id of the last event folded into the index. */
  async foldedId(tx: ReadTransaction): Promise<string> {
    return hexEncode((await tx.get(this.#keys.foldedEvent.key({}))) ?? BEFORE_ALL);
  }

  setFoldedId(tx: Transaction, id: string): void {
    tx.set(this.#keys.foldedEvent.key({}), parseEventId(id).bytes);
  }

  async lastId(tx: ReadTransaction): Promise<string> {
    const last = await tx.snapshot.get(this.#keys.lastEvent.key({}));
    return hexEncode(last ?? BEFORE_ALL);
  }

  /** Returns a watch that fires after the next commit with an event. */
  watch(tx: Transaction): Watch {
    return tx.watch(this.#keys.lastEvent.key({}));
  }

  /** Returns the end of the thinned part of the log. */
  async #thinned(tx: ReadTransaction): Promise<Versionstamp> {
    const bytes = await tx.get(this.#keys.forgottenEvent.key({}));
    return Versionstamp.fromBytes(bytes ?? BEFORE_ALL);
  }

  /**
   * Deletes a page of routine events that are older than `olderThanMs` and already folded into the
   * index. Returns whether there might be more.
   */
  async thin(tx: Transaction, olderThanMs: number): Promise<boolean> {
    const folded = parseEventId(await this.foldedId(tx.snapshot));
    const begin = keyAfter(this.#keys.event.key({ versionstamp: await this.#thinned(tx) }));
    const end = keyAfter(this.#keys.event.key({ versionstamp: folded }));
    const { entries } = await tx.snapshot.getRangePage({ begin, end }, PAGE);
    const old = leading(entries, ({ value }) => timeOf(value) < olderThanMs);
    const last = old.at(-1);
    if (last === undefined) return false;
    let keptBytes = await this.#keptBytes(tx);
    for (const entry of old) {
      if (isRoutine(entry)) tx.clear(entry.key);
      else keptBytes += sizeOf(entry);
    }
    this.#setKeptBytes(tx, keptBytes);
    tx.set(this.#keys.forgottenEvent.key({}), this.#keys.event.unpack(last.key).versionstamp.bytes);
    return old.length === FORGOTTEN_COUNT_MAX;
  }

  /**
   * Deletes the oldest events in the thinned part of the log, at most one page: those older than
   * `olderThanMs`, and more if that part is larger than `bytesMax`. Returns whether there might be
   * more to delete.
   */
  async forget(tx: Transaction, olderThanMs: number, bytesMax: number): Promise<boolean> {
    const { begin } = this.#keys.event.range();
    const end = keyAfter(this.#keys.event.key({ versionstamp: await this.#thinned(tx) }));
    const { entries } = await tx.snapshot.getRangePage({ begin, end }, PAGE);
    let keptBytes = await this.#keptBytes(tx);
    const gone = leading(entries, (entry) => {
      if (timeOf(entry.value) >= olderThanMs && keptBytes <= bytesMax) return false;
      keptBytes -= sizeOf(entry);
      return true;
    });
    const last = gone.at(-1);
    if (last === undefined) return false;
    const isEmptied = gone.length === entries.length && entries.length < FORGOTTEN_COUNT_MAX;
    this.#setKeptBytes(tx, isEmptied ? 0 : keptBytes);
    tx.clearRange({ begin, end: keyAfter(last.key) });
    await this.#forgetFormer(tx, gone.filter(isRemoval));
    return gone.length === FORGOTTEN_COUNT_MAX;
  }

  /** Deletes the names of jobs whose last event is deleted. */
  async #forgetFormer(tx: Transaction, removals: readonly KeyValue[]): Promise<void> {
    const keys = removals.map(({ value }) => this.#formerKey(String(unpackTuple(value)[2])));
    const rows = await tx.getMany(keys);
    for (const [index, key] of keys.entries()) {
      const [row, removal] = [rows[index], removals[index]];
      // Keep a row that is newer than the deleted event: another job with the same id was removed
      // later.
      if (row && removal && timeOf(row) <= timeOf(removal.value)) tx.clear(key);
    }
  }

  async #keptBytes(tx: ReadTransaction): Promise<number> {
    const value = await tx.get(this.#keys.keptEvents.key({}));
    return value === undefined ? 0 : Number(unpackTuple(value)[1]);
  }

  #setKeptBytes(tx: Transaction, bytes: number): void {
    tx.set(this.#keys.keptEvents.key({}), packTuple([FORMAT, Math.max(0, bytes)]));
  }
}

const PAGE = { limit: FORGOTTEN_COUNT_MAX };

/** Returns the leading items that pass the test. */
function leading<T>(items: readonly T[], test: (item: T) => boolean): readonly T[] {
  const end = items.findIndex((item) => !test(item));
  return end < 0 ? items : items.slice(0, end);
}

function isRoutine({ value }: KeyValue): boolean {
  return changesOf(value).every((change) => ROUTINE.has(change));
}

function isRemoval({ value }: KeyValue): boolean {
  return changesOf(value).includes("removed");
}

/**
 * Returns the size of an event. A removal counts twice, because the name of the removed job has a
 * row of about the same size.
 */
function sizeOf(event: KeyValue): number {
  const bytes = event.key.length + event.value.length;
  return isRemoval(event) ? 2 * bytes : bytes;
}

function changesBetween({ before, after }: StatusChange): readonly JobChangeName[] {
  if (after === undefined) return ["removed"];
  if (before === undefined) return ["added"];
  const changes: JobChangeName[] = [];
  if (before.outcome !== after.outcome) {
    if (after.outcome === "completed" || after.outcome === "failed") changes.push(after.outcome);
  }
  const isBehind = after.behindSinceMs !== undefined;
  if ((before.behindSinceMs !== undefined) !== isBehind) {
    changes.push(isBehind ? "behind" : "caught_up");
  }
  for (const [flag, begun, over] of FLAG_CHANGES) {
    const [was, is] = [hasFlag(before, flag), hasFlag(after, flag)];
    if (was !== is) changes.push(is ? begun : over);
  }
  return changes.length > 0 ? changes : ["changed"];
}

const FLAG_CHANGES = [
  ["failing", "failing", "recovered"],
  ["stalled", "stalling", "moving"],
  ["left_behind", "left_behind", "arrived"],
  ["paused", "paused", "resumed"],
] as const;

function parseEventId(id: string): Versionstamp {
  const bytes = /^[0-9a-f]{24}$/.test(id) ? hexDecode(id) : undefined;
  if (bytes?.length === VERSIONSTAMP_BYTES) return Versionstamp.fromBytes(bytes);
  const details = { id: id.slice(0, 100) };
  throw new OperationalError("REPLICATOR_EVENT_INVALID", "Invalid event id", details);
}

function decodeEvent(stamp: Versionstamp, value: Uint8Array): LoggedEvent {
  const [, timeMs, jobId, , before] = unpackTuple(value);
  return {
    id: hexEncode(stamp.bytes),
    timeMs: Number(timeMs),
    jobId: String(jobId),
    changes: changesOf(value),
    before: decoded(before),
  };
}

function changesOf(value: Uint8Array): readonly JobChangeName[] {
  const changes = unpackTuple(value)[3];
  return changes === "" ? [] : (String(changes).split(",") as JobChangeName[]);
}

function decodeFormer(value: Uint8Array): FormerJob {
  const [, , name, rule, status] = unpackTuple(value);
  return {
    name: String(name),
    rule: rule === null ? undefined : String(rule),
    status:
      status instanceof Uint8Array ? { ...decodeStatus(status), ...NOTHING_PENDING } : undefined,
  };
}

/**
 * Decodes a status change. Returns undefined for events of versions that updated the index together
 * with the job, because these events do not contain the status.
 */
function decodeChange(value: Uint8Array): StatusChange | undefined {
  const [, , jobId, , before, after] = unpackTuple(value);
  if (after === undefined) return undefined;
  return { jobId: String(jobId), before: decoded(before), after: decoded(after) };
}

function decoded(status: TupleItem | undefined): JobStatus | undefined {
  return status instanceof Uint8Array ? decodeStatus(status) : undefined;
}

function timeOf(value: Uint8Array): number {
  return Number(unpackTuple(value)[1]);
}
