/**
 * The versions of a store at earlier times, oldest first. An entry states that all changes up to
 * its versionstamp were committed before its time, so a reader that starts there receives every
 * later change.
 *
 * The versionstamps ascend. The times may not, because clocks are set and nodes have different
 * ones: the time of an entry counts only if no earlier entry has a later time. Thus a clock that
 * was ahead for some time makes readers start too early, but not too late.
 */
import type { TimeEntry } from "../records/time-record.ts";

/** Interval between two entries. */
export const ENTRY_INTERVAL_MS = 5 * 60_000;
/**
 * Maximum number of entries. It keeps all entries of the last hour; the gaps between older ones are
 * at most a fifth of their age.
 */
export const ENTRIES_MAX = 100;

/**
 * Appends an entry. If there are more than `countMax`, removes some, so that gaps grow with age.
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
    // Without the removed entry, the next one must not be found by an earlier time.
    const timeMs = Math.max(removed.timeMs, next.timeMs);
    table.splice(at, 2, { timeMs, versionstamp: next.versionstamp });
  }
  return table;
}

/** Returns the last entry that may serve readers of changes since the time. */
export function entryBefore(entries: readonly TimeEntry[], timeMs: number): TimeEntry | undefined {
  let found: TimeEntry | undefined;
  for (const entry of entries) {
    if (entry.timeMs > timeMs) break;
    found = entry;
  }
  return found;
}

/**
 * Index of the entry whose removal leaves the smallest gap, relative to the gap's age. An entry
 * with a later time than its successor is kept as long as possible: merged into the successor, its
 * time would apply to databases whose times were reset in between.
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
