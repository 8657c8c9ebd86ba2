/**
 * The versions of a store at earlier times, oldest first. An entry states that all changes up to
 * its versionstamp were committed before its time. A reader that starts at this versionstamp
 * therefore receives every change since this time.
 *
 * The versionstamps ascend. The times do not always ascend, because clocks are adjusted and differ
 * between nodes. A search by time therefore stops at the first entry with a later time. Thus a
 * clock that was ahead for some time makes readers start too early, but not too late.
 */
import type { TimeEntry } from "../records/time-record.ts";

/** Minimum interval between two entries. */
export const ENTRY_INTERVAL_MS = 5 * 60_000;
/**
 * Maximum number of entries. Enough for all entries of the last hour, and for older entries at
 * intervals of at most a fifth of their age.
 */
export const ENTRIES_MAX = 100;

/**
 * Appends an entry. If there are then more than `countMax` entries, removes some, so that the
 * intervals between entries grow with age.
 */
export function withEntry(
  entries: readonly TimeEntry[],
  entry: TimeEntry,
  countMax = ENTRIES_MAX,
): readonly TimeEntry[] {
  const table = [...entries, entry];
  while (table.length > countMax) {
    const at = leastMissed(table);
    const [removed, next] = [table[at] as TimeEntry, table[at + 1] as TimeEntry];
    // The merged entry has the later of both times, so that a search by an earlier time does not
    // find it.
    const timeMs = Math.max(removed.timeMs, next.timeMs);
    table.splice(at, 2, { timeMs, versionstamp: next.versionstamp });
  }
  return table;
}

/** Returns the last entry from which a reader of the changes since `timeMs` can start. */
export function entryBefore(entries: readonly TimeEntry[], timeMs: number): TimeEntry | undefined {
  let found: TimeEntry | undefined;
  for (const entry of entries) {
    if (entry.timeMs > timeMs) break;
    found = entry;
  }
  return found;
}

/**
 * Returns the index of the entry to remove: the one that leaves the smallest gap, relative to the
 * gap's age. An entry later than its successor (the clock was set back) is the last choice: without
 * it, the successor would take over its time.
 */
function leastMissed(entries: readonly TimeEntry[]): number {
  const nowMs = (entries.at(-1) as TimeEntry).timeMs;
  let least = { at: 0, gap: Number.POSITIVE_INFINITY };
  for (let at = 1; at < entries.length - 1; at++) {
    const [beforeMs, removedMs, afterMs] = [at - 1, at, at + 1].map(
      (index) => (entries[index] as TimeEntry).timeMs,
    ) as [number, number, number];
    if (beforeMs > removedMs || removedMs > afterMs) continue;
    const ageMs = Math.abs(nowMs - beforeMs) + ENTRY_INTERVAL_MS;
    const gap = (afterMs - beforeMs) / ageMs;
    if (gap < least.gap) least = { at, gap };
  }
  return least.at;
}
