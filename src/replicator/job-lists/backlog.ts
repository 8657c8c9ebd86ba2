/**
 * Backlog of a job: the number of pending changes, and the time since which changes have been
 * pending.
 *
 * Changes carry no timestamps, so the age of the oldest pending change counts from its discovery:
 * when a running job read it, when the source announced it, or when the source of a waiting or
 * paused job was asked (`backlog-watch.ts`). Pure.
 */
import { assert } from "../../base/index.ts";
import { packTuple, unpackTuple } from "../../kv/index.ts";
import type { Failing } from "../jobs/failing.ts";

export interface Backlog {
  /**
   * Time at which the oldest pending change was discovered (milliseconds since the epoch), if any.
   */
  readonly sinceMs: number | undefined;
  /**
   * Pending changes at `seenMs`, including changes that a filter might reject; undefined if
   * unknown.
   */
  readonly pending: number | undefined;
  readonly seenMs: number;
}

/**
 * Minimum lag for which a running job first stores its backlog. Also, how far the start of the lag
 * must advance before the job stores its backlog again. While a lag only grows, its start stays the
 * same.
 */
export const BACKLOG_STEP_MS = 5000;

/** Returns the backlog to store for a running job, if it has changed enough. */
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

/**
 * Returns the backlog to store at the end of a run; undefined if it has not changed. The stored
 * backlog stays valid until the source is asked again.
 */
export function backlogToLeave(stored: Backlog | undefined, actual: Backlog): Backlog | undefined {
  return stored !== undefined && stored.sinceMs === actual.sinceMs ? undefined : actual;
}

/**
 * Returns the backlog of a job that is not running, after its source has reported `pending`
 * changes.
 */
export function backlogAsked(
  before: Backlog | undefined,
  pending: number,
  seenMs: number,
): Backlog {
  return { sinceMs: pending > 0 ? (before?.sinceMs ?? seenMs) : undefined, pending, seenMs };
}

/**
 * Whether the source of a failing job might have unknown changes: no change was pending, and the
 * source has not been read since the failure. A run that fails at the target has read the source.
 */
export function isUnread(
  backlog: Backlog | undefined,
  failing: Pick<Failing, "side" | "lastMs"> | undefined,
): boolean {
  if (failing === undefined || failing.side === "target") return false;
  return (
    backlog === undefined || (backlog.sinceMs === undefined && backlog.seenMs <= failing.lastMs)
  );
}

/** Whether a job's lag is unknown: its source was never read, or might have unknown changes. */
export function isLagUnknown(
  backlog: Backlog | undefined,
  failing: Pick<Failing, "side" | "lastMs"> | undefined,
): boolean {
  return backlog === undefined || isUnread(backlog, failing);
}

/** Lag in whole seconds; 0 if no change is pending. */
export function lagSec({ sinceMs }: Backlog, nowMs: number): number {
  return sinceMs === undefined ? 0 : Math.max(0, Math.floor((nowMs - sinceMs) / 1000));
}

/** Format version, stored as the first element. */
const FORMAT = 1;

export function encodeBacklog({ sinceMs, pending, seenMs }: Backlog): Uint8Array {
  const since = sinceMs === undefined ? null : Math.floor(sinceMs);
  return packTuple([FORMAT, since, pending ?? null, Math.floor(seenMs)]);
}

export function decodeBacklog(value: Uint8Array): Backlog {
  const [format, sinceMs, pending, seenMs] = unpackTuple(value);
  assert(
    format === FORMAT && typeof seenMs === "number",
    "A backlog must have a supported format version",
  );
  return {
    sinceMs: typeof sinceMs === "number" ? sinceMs : undefined,
    pending: typeof pending === "number" ? pending : undefined,
    seenMs,
  };
}
