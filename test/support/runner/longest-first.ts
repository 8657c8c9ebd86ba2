/** Starts slow files first. If they started last, they would run while other cores are idle. */
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { LONG_TESTS } from "./long-tests.ts";

/** The slowest files of `npm test`, followed by all long tests. */
const FIRST = [
  "test/dashboard/browser.test.ts",
  "test/kv/lmdb-conformance.test.ts",
  "test/end-to-end/api-examples.test.ts",
  "test/simulation/far-away.test.ts",
  "test/simulation/watching.test.ts",
  "test/end-to-end/sealed-secrets.test.ts",
  "test/end-to-end/faults/kill.test.ts",
  "test/end-to-end/faults/failures.test.ts",
  "test/end-to-end/replication.test.ts",
  "test/server/route-access.test.ts",
  "test/end-to-end/page-commands.test.ts",
  "test/end-to-end/operations/shell.test.ts",
  "test/end-to-end/operations/command-line.test.ts",
  "test/couchdb-replicator/replication.test.ts",
  "test/replicator/schedules.test.ts",
  "test/server/jobs/alerts.test.ts",
  "test/kv/lmdb-disk-simulation.test.ts",
  "test/end-to-end/operations/jobs-command.test.ts",
  "test/dashboard/many-jobs.test.ts",
  "test/couchdb-replicator/documents.test.ts",
  "test/end-to-end/parking.test.ts",
  "test/end-to-end/stored-formats.test.ts",
  ...LONG_TESTS,
];

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification): number => {
      const at = FIRST.findIndex((file) => moduleId.endsWith(`/${file}`));
      return at === -1 ? FIRST.length : at;
    };
    return (await super.sort(files)).sort((left, right) => place(left) - place(right));
  }
}
