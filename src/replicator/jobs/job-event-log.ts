/**
 * What happened to jobs, in the order in which it was committed, for those who follow it (`GET /_tandem/events`). An event is written
 * in the transaction that changes the job, so none is missed and none is announced that did not happen. It tells what changed and not
 * what the job is now: a reader looks at the job, so that an event says the same as a list. Old events are forgotten.
 *
 * The index of jobs is behind the log by its last events (`index-tail.ts`): those that change a status tell the status before and after.
 */
import { type Clock, hexDecode, hexEncode, Notifier, OperationalError } from "../../base/index.ts";
import {
  firstGreaterThan,
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
import { ReplicatorKeys } from "../replicator-keys.ts";
import type { JobEvent } from "./job-data.ts";
import { decodeStatus, hasFlag, type JobStatus } from "./job-status.ts";

/**
 * What an event may tell of a job: it was added or removed; a run began, ended in one of five ways, or nobody knows how;
 * it has completed, or failed for good; it fails from now on, or no more; its runs stall from now on, or no more; it has
 * left documents behind, or has none left; it was paused or resumed; it falls behind, or has caught up; `changed` is
 * whatever else lists find it by.
 */
export const JOB_CHANGES = [
  "added",
  "removed",
  "started",
  "stopped",
  "parked",
  "crashed",
  "stalled",
  "lost",
  "completed",
  "failed",
  "failing",
  "recovered",
  "stalling",
  "moving",
  "left_behind",
  "arrived",
  "paused",
  "resumed",
  "behind",
  "caught_up",
  "changed",
] as const;
export type JobChangeName = (typeof JOB_CHANGES)[number];

/** What a run adds to the history of its job. */
type RunEvent = Pick<JobEvent, "type">;

export interface LoggedEvent {
  /** Its place in the log: 24 hex digits, in the order of the commits. */
  readonly id: string;
  readonly timeMs: number;
  readonly jobId: string;
  readonly changes: readonly JobChangeName[];
  /** As lists found the job before; undefined where that did not change, or there was no job. */
  readonly before: JobStatus | undefined;
}

/** How lists find a job before and after an event; undefined: there is no job. */
export interface StatusChange {
  readonly jobId: string;
  readonly before: JobStatus | undefined;
  readonly after: JobStatus | undefined;
}

/** The same with both statuses in their stored form: who writes a change needs that several times. */
export interface EncodedChange extends StatusChange {
  readonly encodedBefore: Uint8Array | undefined;
  readonly encodedAfter: Uint8Array | undefined;
}

/** An event as the index sees it. */
export interface StatusEvent {
  readonly id: string;
  /** Undefined when lists find the job as before. */
  readonly change: StatusChange | undefined;
}

export interface EventPage {
  readonly events: readonly LoggedEvent[];
  /** The newest of the events behind the asked place that have been forgotten, so that some are missing here. */
  readonly forgottenId: string | undefined;
}

export interface PastEvents {
  /** The newest first. */
  readonly events: readonly LoggedEvent[];
  /** Whether the log has older ones. */
  readonly hasOlder: boolean;
}

/** Events forgotten in one transaction. */
const FORGOTTEN_COUNT_MAX = 1000;
/** The stored form; the first element is the format's version. */
const FORMAT = 1;
/** As an id: a place before the first event. */
const BEFORE_ALL = new Uint8Array(VERSIONSTAMP_BYTES);

/** So many events that this process wrote are announced at once. */
const ANNOUNCED_EVENTS = 100;

export class JobEventLog {
  /** Notified once this process has written further events, and at its start. */
  readonly written = new Notifier();
  readonly #clock: Clock;
  readonly #keys: ReplicatorKeys;
  #writtenCount = 0;

  constructor(clock: Clock, subspace: Subspace) {
    this.#clock = clock;
    this.#keys = new ReplicatorKeys(subspace);
    this.written.notify();
  }

  /** Lists find the job by other facts from now on. Equal statuses are no event. */
  noteStatus(tx: Transaction, change: EncodedChange): void {
    this.#append(tx, change.jobId, changesBetween(change), change);
  }

  /** The same of facts that are no news for those who follow events: they are told of no change. */
  noteSilently(tx: Transaction, change: EncodedChange): void {
    this.#append(tx, change.jobId, [], change);
  }

  /** A run of the job began or ended, as its history says. */
  noteRun(tx: Transaction, jobId: string, events: readonly RunEvent[]): void {
    const changes = events.flatMap(({ type }) => (type === "pending" ? [] : [type]));
    this.#append(tx, jobId, changes);
  }

  /** The job waits again: its run ended without a word, because the node died, or lost the job. */
  noteLost(tx: Transaction, jobId: string): void {
    this.#append(tx, jobId, ["lost"]);
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
    tx.setVersionstampedKey(this.#keys.newEvent(userVersion), value);
    const last = Versionstamp.incomplete(userVersion);
    tx.setVersionstampedValue(this.#keys.lastEvent(), { bytes: last.bytes, offset: 0 });
    tx.afterCommit(() => this.#count());
  }

  #count(): void {
    this.#writtenCount++;
    if (this.#writtenCount % ANNOUNCED_EVENTS === 0) this.written.notify();
  }

  /** The events behind a place, oldest first. Throws REPLICATOR_EVENT_INVALID for what is no id of an event. */
  async page(tx: ReadTransaction, afterId: string, limit: number): Promise<EventPage> {
    const after = parseEventId(afterId);
    const { end } = this.#keys.events();
    const begin = firstGreaterThan(this.#keys.event(after));
    const { entries } = await tx.snapshot.getRangePage({ begin, end }, { limit });
    const forgotten = await tx.snapshot.get(this.#keys.forgottenEvent());
    const forgottenId = forgotten && hexEncode(forgotten);
    return {
      events: entries.map(({ key, value }) => decodeEvent(this.#keys.eventStamp(key), value)),
      forgottenId: forgottenId !== undefined && afterId < forgottenId ? forgottenId : undefined,
    };
  }

  /** The events before a place, or the last of all. Throws REPLICATOR_EVENT_INVALID for what is no id of an event. */
  async past(
    tx: ReadTransaction,
    beforeId: string | undefined,
    limit: number,
  ): Promise<PastEvents> {
    const all = this.#keys.events();
    const end = beforeId === undefined ? all.end : this.#keys.event(parseEventId(beforeId));
    const range = { begin: all.begin, end };
    const { entries } = await tx.snapshot.getRangePage(range, { limit: limit + 1, reverse: true });
    const events = entries.map(({ key, value }) => decodeEvent(this.#keys.eventStamp(key), value));
    return { events: events.slice(0, limit), hasOlder: events.length > limit };
  }

  /** What the events behind `afterId` up to `lastId` change in lists, oldest first; the first `limit` of them. */
  async statusEvents(
    tx: ReadTransaction,
    afterId: string,
    lastId: string,
    limit?: number,
  ): Promise<readonly StatusEvent[]> {
    const begin = keyAfter(this.#keys.event(parseEventId(afterId)));
    const end = keyAfter(this.#keys.event(parseEventId(lastId)));
    const found: StatusEvent[] = [];
    for await (const { key, value } of tx.snapshot.getRange(
      { begin, end },
      limit === undefined ? {} : { limit },
    )) {
      const id = hexEncode(this.#keys.eventStamp(key).bytes);
      found.push({ id, change: decodeChange(value) });
    }
    return found;
  }

  /** Up to which event the rows of the index have all changes. */
  async foldedId(tx: ReadTransaction): Promise<string> {
    return hexEncode((await tx.get(this.#keys.foldedEvent())) ?? BEFORE_ALL);
  }

  setFoldedId(tx: Transaction, id: string): void {
    tx.set(this.#keys.foldedEvent(), parseEventId(id).bytes);
  }

  /** Where the log ends now: events behind it are yet to come. */
  async lastId(tx: ReadTransaction): Promise<string> {
    const last = await tx.snapshot.get(this.#keys.lastEvent());
    return hexEncode(last ?? BEFORE_ALL);
  }

  /** Fires after the next commit with an event. */
  watch(tx: Transaction): Watch {
    return tx.watch(this.#keys.lastEvent());
  }

  /**
   * Forgets some of the events that are older than this, and that the rows of the index have; returns whether there may be more of
   * them.
   */
  async forget(tx: Transaction, olderThanMs: number): Promise<boolean> {
    const folded = parseEventId(await this.foldedId(tx.snapshot));
    const all = { begin: this.#keys.events().begin, end: keyAfter(this.#keys.event(folded)) };
    const { entries } = await tx.snapshot.getRangePage(all, { limit: FORGOTTEN_COUNT_MAX });
    const isOld = ({ value }: { readonly value: Uint8Array }) => timeOf(value) < olderThanMs;
    const firstKept = entries.findIndex((entry) => !isOld(entry));
    const old = firstKept < 0 ? entries : entries.slice(0, firstKept);
    const last = old.at(-1);
    if (last === undefined) return false;
    tx.clearRange({ begin: all.begin, end: keyAfter(last.key) });
    tx.set(this.#keys.forgottenEvent(), this.#keys.eventStamp(last.key).bytes);
    return firstKept < 0 && entries.length === FORGOTTEN_COUNT_MAX;
  }
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
  throw new OperationalError("REPLICATOR_EVENT_INVALID", "This is no id of an event", details);
}

function decodeEvent(stamp: Versionstamp, value: Uint8Array): LoggedEvent {
  const [, timeMs, jobId, changes, before] = unpackTuple(value);
  return {
    id: hexEncode(stamp.bytes),
    timeMs: Number(timeMs),
    jobId: String(jobId),
    changes: changes === "" ? [] : (String(changes).split(",") as JobChangeName[]),
    before: decoded(before),
  };
}

/** Events of versions whose index had all changes at once have no status after. */
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
