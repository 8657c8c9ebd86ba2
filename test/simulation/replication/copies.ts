/**
 * Records, in commit order, which node held a running job and which node copied into the job's
 * target. Each record is a stamped row, written in the transaction of the recorded operation. The
 * ledger of the queue (`jobs/ledger.ts`) cannot be used for this, because it contains only writes
 * that verify the lock of a job, and copies do not verify it.
 */
import type { DatabaseHook } from "../../../src/databases/index.ts";
import type { HeldJob, JobData, Jobs } from "../../../src/jobs/index.ts";
import {
  packTuple,
  type ReadTransaction,
  Subspace,
  type Transaction,
  unpackTuple,
  Versionstamp,
} from "../../../src/kv/index.ts";
import { REPLICATION_JOB_TYPE } from "../../../src/replicator/index.ts";
import { decodeJob } from "../../../src/replicator/jobs/job-data-record.ts";
import type { SimulatedNode } from "../kernel/simulated-node.ts";

const COPIES = Subspace.fromTuple(["copies"]);

/** Documents with this name request a replication that another document also requests. */
export const TWIN = "twin";

/**
 * Recorded operations. `accept` is recorded at the start of a run, because a short run might record
 * nothing else.
 */
type Operation = "accept" | "hold" | "copy";

function note(tx: Transaction, database: string, node: SimulatedNode, operation: Operation): void {
  const stamp = Versionstamp.incomplete(tx.nextUserVersion());
  const value = packTuple([operation, node.name, node.strikeCount]);
  tx.setVersionstampedKey(COPIES.packVersionstamped([database, stamp]), value);
}

/** Changes the queue so that it records the databases into which jobs of this node copy. */
export function recordHolds(jobs: Jobs, node: SimulatedNode): Jobs {
  const accept = jobs.accept.bind(jobs);
  const update = jobs.update.bind(jobs);
  return Object.assign(jobs, {
    async accept(tx: Transaction, type: string, options: Parameters<Jobs["accept"]>[2]) {
      const acceptance = await accept(tx, type, options);
      if (type !== REPLICATION_JOB_TYPE || acceptance.kind !== "accepted") return acceptance;
      for (const job of acceptance.jobs) {
        const target = decodeJob(job).replication?.target;
        if (target?.kind === "local") note(tx, target.database, node, "accept");
      }
      return acceptance;
    },
    async update(tx: Transaction, held: HeldJob, data?: JobData, request?: JobData) {
      const before = await jobs.get(tx, held);
      await update(tx, held, data, request);
      // A job holds its target only once its run has started: if another job has the same
      // replication, the run ends without copying.
      const stored = { data: data ?? {}, request: request ?? before?.request };
      const { history, replication } = decodeJob(stored);
      const target = replication?.target;
      if (history[0]?.type === "started" && target?.kind === "local") {
        note(tx, target.database, node, "hold");
      }
    },
  });
}

/** Returns a hook that records copies by this node into one of these databases. */
export function recordCopies(node: SimulatedNode, databases: ReadonlySet<string>): DatabaseHook {
  return {
    appliesTo: (database) => databases.has(database),
    async beforeWrite(tx, database, edit) {
      if (edit.mode === "replicated") note(tx, database.name, node, "copy");
      return { edit };
    },
  };
}

/**
 * Checks that only one job at a time writes into each database. A node that was paused can still
 * send writes that it began before another node accepted the job. A node without a fault since it
 * accepted the job must not do so.
 */
export async function checkCopies(tx: ReadTransaction): Promise<string[]> {
  const problems: string[] = [];
  const holders = new Map<string, string>();
  const strikesWhenHeld = new Map<string, number>();
  for await (const { key, value } of tx.getRange(COPIES.range())) {
    const database = COPIES.unpack(key)[0] as string;
    const [operation, node, strikeCount] = unpackTuple(value) as [Operation, string, number];
    // After an acceptance, copies of the node might belong to the accepted run.
    if (operation === "accept") strikesWhenHeld.delete(`${database} ${node}`);
    else if (operation === "hold") {
      holders.set(database, node);
      strikesWhenHeld.set(`${database} ${node}`, strikeCount);
    } else if (
      holders.get(database) !== node &&
      strikesWhenHeld.get(`${database} ${node}`) === strikeCount
    ) {
      problems.push(`${node} copies into ${database}, which ${holders.get(database)} has taken`);
    }
  }
  return problems;
}
