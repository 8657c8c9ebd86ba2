/**
 * Test files that `npm run test:long` runs, and `npm test` does not. They simulate clusters, kill
 * processes and machines, wait until leases and outages end, or run foreign programs. Together they
 * take nearly half of the time of all tests. CI runs both commands. The list begins with the
 * slowest files.
 */
export const LONG_TESTS: readonly string[] = [
  "test/simulation/replication.test.ts",
  "test/jobs/worker-processes.test.ts",
  "test/end-to-end/faults/guilty-documents.test.ts",
  "test/end-to-end/operations/night.test.ts",
  "test/end-to-end/operations/rules.test.ts",
  "test/packages/debian.test.ts",
  "test/simulation/jobs.test.ts",
  "test/end-to-end/faults/faults.test.ts",
  "test/kv/lmdb-failed-disks.test.ts",
  "test/peers/pouchdb-server.test.ts",
  "test/end-to-end/faults/stalls.test.ts",
  "test/simulation/fair-share.test.ts",
  "test/kv/lmdb-processes.test.ts",
  "test/end-to-end/faults/node-kills.test.ts",
  "test/end-to-end/operations/per-user-databases.test.ts",
  "test/end-to-end/node-types.test.ts",
  "test/end-to-end/operations/alerts.test.ts",
  "test/end-to-end/operations/backup.test.ts",
  "test/end-to-end/operations/drain.test.ts",
  "test/end-to-end/operations/placement.test.ts",
  "test/end-to-end/operations/upgrade.test.ts",
  "test/simulation/scale.test.ts",
  "test/peers/pouchdb.test.ts",
  "test/jobs/accept-cost.test.ts",
  "test/kv/lmdb-power-failure.test.ts",
  "test/packages/npm.test.ts",
  "test/end-to-end/faults/rolling-restart.test.ts",
  "test/replicator/outages.test.ts",
  "test/kv/lmdb-disk-copies.test.ts",
  "test/site/site.test.ts",
  "test/release/release.test.ts",
  "test/end-to-end/operations/move.test.ts",
  "test/end-to-end/faults/slow-readers.test.ts",
  "test/peers/couchbackup.test.ts",
  "test/kv/lmdb-machine.test.ts",
  "test/end-to-end/faults/full-disk.test.ts",
];
