/** Statistics of a replication over all runs, counted as in CouchDB. */

/** The counters, with their names in `_scheduler` and `_replication_stats`. */
const COUNTERS = {
  missingChecked: "revisions_checked",
  missingFound: "missing_revisions_found",
  docsRead: "docs_read",
  docsWritten: "docs_written",
  docWriteFailures: "doc_write_failures",
  /** Number of changes and revisions that the replication is configured to omit. Not in CouchDB. */
  docsLeftOut: "docs_left_out",
  bulkGetDocs: "bulk_get_docs",
  bulkGetAttempts: "bulk_get_attempts",
} as const;

type Counter = keyof typeof COUNTERS;
export type ReplicationStatistics = { readonly [Name in Counter]: number };
type ShownStatistics = { readonly [Name in Counter as (typeof COUNTERS)[Name]]: number };

const NAMES = Object.keys(COUNTERS) as Counter[];

export const NO_STATISTICS = Object.fromEntries(
  NAMES.map((name) => [name, 0]),
) as ReplicationStatistics;

export function addStatistics(
  total: ReplicationStatistics,
  more: Partial<ReplicationStatistics>,
): ReplicationStatistics {
  return eachCounter((name) => total[name] + (more[name] ?? 0));
}

/** Returns the difference between `total` and `before`, for example for one run. */
export function statisticsSince(
  before: ReplicationStatistics,
  total: ReplicationStatistics,
): ReplicationStatistics {
  return eachCounter((name) => total[name] - before[name]);
}

/** Returns the statistics as JSON of `_scheduler` and `_replication_stats`. */
export function shownStatistics(statistics: ReplicationStatistics): ShownStatistics {
  return Object.fromEntries(
    NAMES.map((name) => [COUNTERS[name], statistics[name]]),
  ) as ShownStatistics;
}

/**
 * Creates statistics. `countOf` returns a counter by its name in `_scheduler` and
 * `_replication_stats`.
 */
export function statisticsOfShown(
  countOf: (name: keyof ShownStatistics) => number,
): ReplicationStatistics {
  return eachCounter((name) => countOf(COUNTERS[name]));
}

function eachCounter(countOf: (name: Counter) => number): ReplicationStatistics {
  // Copying an object that has all members is several times faster than building one from entries.
  const counts: { -readonly [Name in Counter]: number } = { ...NO_STATISTICS };
  for (const name of NAMES) counts[name] = countOf(name);
  return counts;
}
