/** Statistics of a replication over all runs, counted as in CouchDB. */

export interface ReplicationStatistics {
  readonly missingChecked: number;
  readonly missingFound: number;
  readonly docsRead: number;
  readonly docsWritten: number;
  readonly docWriteFailures: number;
  /**
   * Number of changes and revisions that the replication is configured to omit (`Omissions`). Not
   * in CouchDB.
   */
  readonly docsLeftOut: number;
  readonly bulkGetAttempts: number;
  readonly bulkGetDocs: number;
}

export const NO_STATISTICS: ReplicationStatistics = {
  missingChecked: 0,
  missingFound: 0,
  docsRead: 0,
  docsWritten: 0,
  docWriteFailures: 0,
  docsLeftOut: 0,
  bulkGetAttempts: 0,
  bulkGetDocs: 0,
};

export function addStatistics(
  total: ReplicationStatistics,
  more: Partial<ReplicationStatistics>,
): ReplicationStatistics {
  return {
    missingChecked: total.missingChecked + (more.missingChecked ?? 0),
    missingFound: total.missingFound + (more.missingFound ?? 0),
    docsRead: total.docsRead + (more.docsRead ?? 0),
    docsWritten: total.docsWritten + (more.docsWritten ?? 0),
    docWriteFailures: total.docWriteFailures + (more.docWriteFailures ?? 0),
    docsLeftOut: total.docsLeftOut + (more.docsLeftOut ?? 0),
    bulkGetAttempts: total.bulkGetAttempts + (more.bulkGetAttempts ?? 0),
    bulkGetDocs: total.bulkGetDocs + (more.bulkGetDocs ?? 0),
  };
}

/** Returns the difference between `total` and `before`, for example for one run. */
export function statisticsSince(
  before: ReplicationStatistics,
  total: ReplicationStatistics,
): ReplicationStatistics {
  return {
    missingChecked: total.missingChecked - before.missingChecked,
    missingFound: total.missingFound - before.missingFound,
    docsRead: total.docsRead - before.docsRead,
    docsWritten: total.docsWritten - before.docsWritten,
    docWriteFailures: total.docWriteFailures - before.docWriteFailures,
    docsLeftOut: total.docsLeftOut - before.docsLeftOut,
    bulkGetAttempts: total.bulkGetAttempts - before.bulkGetAttempts,
    bulkGetDocs: total.bulkGetDocs - before.bulkGetDocs,
  };
}
