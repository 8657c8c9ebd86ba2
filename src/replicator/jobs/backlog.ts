/**
 * The backlog of a job: whether there are changes that have not arrived on its target, since when, and how many.
 *
 * Changes carry no time. So the age of the oldest one counts from when the replicator learned of it: a running job when it read
 * the change, or its source announced it; a waiting or paused job when its source was asked (`backlog-watch.ts`). Pure.
 */
import { assert } from "../../base/index.ts";
import { packTuple, unpackTuple } from "../../kv/index.ts";

export interface Backlog {
  /** Since when it has been known that something is to arrive, in ms since the epoch; undefined: all that is known has arrived. */
  readonly sinceMs: number | undefined;
  /** Changes that were to arrive at `seenMs`; undefined: the source could not say. With a filter, some of them may not match. */
  readonly pending: number | undefined;
  readonly seenMs: number;
}

/** What is stored of a running job is exact to this: so a job that keeps up, or falls behind slowly, writes nothing. */
export const BACKLOG_STEP_MS = 5000;

/** What is to be stored of a running job, beside what is stored; undefined: nothing. Never later than the truth. */
export function backlogToStore(stored: Backlog | undefined, actual: Backlog): Backlog | undefined {
  if (actual.sinceMs === undefined) {
    return stored !== undefined && stored.sinceMs === undefined ? undefined : actual;
  }
  const beforeMs = stored?.sinceMs;
  if (beforeMs === undefined) {
    return actual.seenMs - actual.sinceMs >= BACKLOG_STEP_MS ? actual : undefined;
  }
  const movedMs = actual.sinceMs - beforeMs;
  return movedMs < 0 || movedMs >= BACKLOG_STEP_MS ? actual : undefined;
}

/** The same at the end of a run, exactly: nobody measures until the source is asked. */
export function backlogToLeave(stored: Backlog | undefined, actual: Backlog): Backlog | undefined {
  return stored !== undefined && stored.sinceMs === actual.sinceMs ? undefined : actual;
}

/** After the source of a job that does not run has been asked. */
export function backlogAsked(
  before: Backlog | undefined,
  pending: number,
  seenMs: number,
): Backlog {
  return { sinceMs: pending > 0 ? (before?.sinceMs ?? seenMs) : undefined, pending, seenMs };
}

/** In whole seconds; 0: all that is known has arrived. */
export function lagSec({ sinceMs }: Backlog, nowMs: number): number {
  return sinceMs === undefined ? 0 : Math.max(0, Math.floor((nowMs - sinceMs) / 1000));
}

/** The stored form; the first element is the format's version. */
const FORMAT = 1;

export function encodeBacklog({ sinceMs, pending, seenMs }: Backlog): Uint8Array {
  const since = sinceMs === undefined ? null : Math.floor(sinceMs);
  return packTuple([FORMAT, since, pending ?? null, Math.floor(seenMs)]);
}

export function decodeBacklog(value: Uint8Array): Backlog {
  const [format, sinceMs, pending, seenMs] = unpackTuple(value);
  assert(format === FORMAT && typeof seenMs === "number", "A backlog has a format of this version");
  return {
    sinceMs: typeof sinceMs === "number" ? sinceMs : undefined,
    pending: typeof pending === "number" ? pending : undefined,
    seenMs,
  };
}
