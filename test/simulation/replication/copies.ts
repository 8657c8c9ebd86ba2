/**
 * Records which node held a running job and which copied into its target, in commit order: stamped
 * rows in the transactions themselves. It complements the ledger of the queue (`jobs/ledger.ts`),
 * which contains writes that verify the lock; copies do not.
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

/** Documents with this name request a replication that another one also requests. */
export const TWIN = "twin";

/**
 * Recorded operations. `accept` is the start of a run that may be too short to be recorded
 * otherwise. Of two runs with the same replication, one ends without copying.
 */
type Operation = "accept" | "hold" | "copy";

function note(tx: Transaction, database: string, node: SimulatedNode, operation: Operation): void {
  const stamp = Versionstamp.incomplete(tx.nextUserVersion());
  const value = packTuple([operation, node.name, node.strikeCount]);
  tx.setVersionstampedKey(COPIES.packVersionstamped([database, stamp]), value);
}

/** Causes a queue to record the databases that jobs of this node copy into. */
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
      // The target is not recorded at acceptance: if two jobs have the same replication, the second
      // finds that the first is running, and does not replace it.
      const stored = { data: data ?? {}, request: request ?? before?.request };
      const { history, replication } = decodeJob(stored);
      const target = replication?.target;
      if (history[0]?.type === "started" && target?.kind === "local") {
        note(tx, target.database, node, "hold");
      }
    },
  });
}

/** Records that this node copies into one of these databases. */
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
 * One job writes into each database. A resumed node may still send writes that it had begun, though
 * another node has the job by then. A node without a fault since it accepted the job may not.
 */
export async function checkCopies(tx: ReadTransaction): Promise<string[]> {
  const problems: string[] = [];
  const holders = new Map<string, string>();
  const strikesWhenHeld = new Map<string, number>();
  for await (const { key, value } of tx.getRange(COPIES.range())) {
    const database = COPIES.unpack(key)[0] as string;
    const [operation, node, strikeCount] = unpackTuple(value) as [Operation, string, number];
    // Copies after an acceptance may belong to the new run.
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
