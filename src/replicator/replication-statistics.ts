/** What one replication has done, counted as CouchDB counts it; over all its runs, since checkpoints carry the figures on. */

export interface ReplicationStatistics {
  readonly missingChecked: number;
  readonly missingFound: number;
  readonly docsRead: number;
  readonly docsWritten: number;
  readonly docWriteFailures: number;
  readonly bulkGetAttempts: number;
  readonly bulkGetDocs: number;
}

export const NO_STATISTICS: ReplicationStatistics = {
  missingChecked: 0,
  missingFound: 0,
  docsRead: 0,
  docsWritten: 0,
  docWriteFailures: 0,
  bulkGetAttempts: 0,
  bulkGetDocs: 0,
};

export function addStatistics(
  total: ReplicationStatistics,
  more: Partial<ReplicationStatistics>,
): ReplicationStatistics {
  return combine(total, { ...NO_STATISTICS, ...more }, (left, right) => left + right);
}

/** The larger of each figure: how a run goes on from the job's own figures and the checkpoint's. */
export function maxStatistics(
  left: ReplicationStatistics,
  right: ReplicationStatistics,
): ReplicationStatistics {
  return combine(left, right, Math.max);
}

function combine(
  left: ReplicationStatistics,
  right: ReplicationStatistics,
  operation: (left: number, right: number) => number,
): ReplicationStatistics {
  return {
    missingChecked: operation(left.missingChecked, right.missingChecked),
    missingFound: operation(left.missingFound, right.missingFound),
    docsRead: operation(left.docsRead, right.docsRead),
    docsWritten: operation(left.docsWritten, right.docsWritten),
    docWriteFailures: operation(left.docWriteFailures, right.docWriteFailures),
    bulkGetAttempts: operation(left.bulkGetAttempts, right.bulkGetAttempts),
    bulkGetDocs: operation(left.bulkGetDocs, right.bulkGetDocs),
  };
}
