/**
 * The store's contract on a live FoundationDB cluster, in a separate subspace. Skipped unless
 * `FDB_CLUSTER_FILE` is set.
 */
import { describe, test } from "vitest";
import { createSystemRuntime, openFoundationDbEngine } from "../../src/host/index.ts";
import { READ_VERSION_AGE_MS_MAX, Subspace, SubspaceEngine } from "../../src/kv/index.ts";
import { EVERYTHING, type OpenedEngines } from "../../src/library/kv-conformance/fixture.ts";
import { testConformance } from "../support/kv/conformance.ts";

const clusterFile = process.env.FDB_CLUSTER_FILE;

if (clusterFile === undefined) {
  describe("the key-value contract on foundationdb", () => {
    test.skip("skipped: FDB_CLUSTER_FILE does not name a live cluster", () => {});
  });
} else {
  testConformance("foundationdb, in a subspace", {
    open: () => openFoundationDb(clusterFile),
  });
}

/** Key outside the range that tests read. Writing it advances the version of the cluster. */
const TIME_PASSES = new Uint8Array([0xfd]);

async function openFoundationDb(file: string): Promise<OpenedEngines> {
  const runtime = createSystemRuntime();
  const { prefix } = Subspace.fromTuple(["tandem test", process.pid, Date.now()]);
  const open = async (): Promise<SubspaceEngine> =>
    new SubspaceEngine(await openFoundationDbEngine({ runtime, clusterFile: file }), prefix);
  const engine = await open();
  return {
    engine,
    peer: await open(),
    async passReadVersionAge() {
      // Real time has to pass, because the cluster has its own clock. The writes are necessary,
      // because a storage server drops old versions only when it receives new ones.
      for (let passedMs = 0; passedMs < READ_VERSION_AGE_MS_MAX + 2_000; passedMs += 500) {
        await runtime.clock.sleep(500);
        const attempt = engine.begin();
        attempt.transaction.set(TIME_PASSES, new Uint8Array(1));
        await attempt.commit();
      }
    },
    async remove() {
      const last = await open();
      const attempt = last.begin();
      attempt.transaction.clearRange(EVERYTHING);
      await attempt.commit();
      await last.close();
    },
  };
}
