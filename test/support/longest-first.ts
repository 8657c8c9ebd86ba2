/** Long files start first: started last they would run while other cores have nothing left to do. */
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Simulations, and tests that wait for processes; those that take longest first. */
const LONG = [
  "end-to-end/guilty-documents",
  "jobs/worker-processes",
  "simulation/replication",
  "end-to-end/kill",
  "end-to-end/faults",
  "simulation/jobs",
  "end-to-end/sealed-secrets",
  "replicator/outages",
  "kv/lmdb-power-failure",
  "end-to-end/backup",
  "kv/lmdb-disk-simulation",
  "simulation/fair-share",
  "end-to-end/node-kills",
  "end-to-end/replication",
  "end-to-end/command-line",
  "jobs/accept-cost",
  "peers/pouchdb-server",
  "kv/lmdb-failed-disks",
  "kv/lmdb-conformance",
];

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification): number => {
      const at = LONG.findIndex((name) => moduleId.endsWith(`/test/${name}.test.ts`));
      return at === -1 ? LONG.length : at;
    };
    return (await super.sort(files)).sort((left, right) => place(left) - place(right));
  }
}
